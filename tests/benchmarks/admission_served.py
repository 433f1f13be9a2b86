"""Admission end to end: a real ``headrace serve`` over HTTP, with the default model, and with bodies that wait."""

import asyncio
import contextlib
import hashlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from programs import HERE, HOST, free_port, stop, wait_until_up

ROOT = HERE.parents[1]
_SLOTS = 8
_CAPACITY_S, _LASTS_S, _PATIENCE_S = 15.0, 40.0, 60.0
_MODEL_POLICY = """
backends: {{local: {{use: embedded, slots: {slots}, queue_limit: 2000}}}}
routes: {{all: {{models: ["*"], targets: [local], admit: {{use: {admit}}}}}}}
tenants:
  flood: {{priority: interactive, keys_sha256: [{flood}]}}
  small: {{priority: interactive, keys_sha256: [{small}]}}
"""
_ADMIT = {
    "no control": "fixed_concurrency, limit: 100000",
    "FIFO, at most 100 wait": f"fixed_concurrency, limit: {_SLOTS}, queue: 100",
    "fair_queue": "fair_queue, limit: null, queue: 2000",
}
_SHORT, _LONG = (24, 3.0), (64, 12.0)
"""Tokens, and seconds until the whole answer is wanted."""


@dataclass(slots=True)
class Asked:
    """One request: what was wanted and what came. ``took_s`` is until the answer's end or the refusal."""

    tenant: str
    short: bool
    deadline_s: float
    status: int = 0
    took_s: float = 0.0
    retry_after_s: float | None = None

    @property
    def good(self) -> bool:
        """Whether it was answered in time."""
        return self.status == httpx.codes.OK and self.took_s <= self.deadline_s


def _sha256(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


@contextmanager
def _serving(policy: str) -> Iterator[tuple[int, int]]:
    """A server over the text of a policy file: its port and its process."""
    with TemporaryDirectory() as folder:
        file, port = Path(folder) / "policy.yaml", free_port()
        file.write_text(policy)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "HEADRACE_"))}
        environment |= {"HEADRACE_STATE_DIR": folder, "HEADRACE_LEDGER": "off"}
        command = [sys.executable, "-m", "gateway", "serve", str(file), "--port", str(port)]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
        try:
            wait_until_up(process, port, "/readyz")
            yield port, process.pid
        finally:
            stop(process)


# ---- the real model -------------------------------------------------------------------------------------------------


async def _ask(client: httpx.AsyncClient, asked: Asked, number: int) -> Asked:
    tokens = (_SHORT if asked.short else _LONG)[0]
    body = {
        "model": "any",
        "max_tokens": tokens,
        "ignore_eos": True,
        "messages": [{"role": "user", "content": f"{number}. Tell me something about rivers, mountains and the sea."}],
    }
    headers = {"authorization": f"Bearer {asked.tenant}", "x-headrace-deadline-ms": str(int(asked.deadline_s * 1000))}
    begun_s = time.monotonic()
    try:
        answer = await client.post("/v1/chat/completions", json=body, headers=headers)
        asked.status = answer.status_code
        asked.retry_after_s = float(answer.headers["retry-after"]) if "retry-after" in answer.headers else None
    except httpx.HTTPError:
        asked.status = 0
    asked.took_s = time.monotonic() - begun_s
    return asked


async def _capacity(client: httpx.AsyncClient) -> float:
    """Requests a second with all slots busy."""
    until_s, done = time.monotonic() + _CAPACITY_S, 0

    async def one_after_the_other(first: int) -> None:
        nonlocal done
        number = first
        while time.monotonic() < until_s:
            short = bool(number % 2)
            await _ask(client, Asked("small", short, 600.0), number)
            number += _SLOTS + 1
            done += 1

    begun_s = time.monotonic()
    await asyncio.gather(*(one_after_the_other(place) for place in range(_SLOTS)))
    return done / (time.monotonic() - begun_s)


async def _flood(client: httpx.AsyncClient, per_s: float) -> list[Asked]:
    """Poisson arrivals; three quarters of them from one tenant."""
    dice = random.Random(5)  # noqa: S311  # a repeatable workload, no secret
    tasks, begun_s, due_s = [], time.monotonic(), 0.0
    while (due_s := due_s + dice.expovariate(per_s)) < _LASTS_S:
        await asyncio.sleep(max(begun_s + due_s - time.monotonic(), 0))
        short = dice.random() < 0.5
        tenant = "flood" if dice.random() < 0.75 else "small"
        asked = Asked(tenant, short, (_SHORT if short else _LONG)[1])
        tasks.append(asyncio.create_task(_ask(client, asked, len(tasks))))
    return list(await asyncio.gather(*tasks))


def _figures(asked: list[Asked]) -> dict[str, float]:
    def share(some: list[Asked]) -> float:
        return sum(one.good for one in some) / max(len(some), 1)

    answered = [one for one in asked if one.status == httpx.codes.OK]
    refused = [one.took_s for one in asked if one.status == httpx.codes.SERVICE_UNAVAILABLE]
    return {
        "asked": len(asked),
        "goodput_per_s": sum(one.good for one in asked) / _LASTS_S,
        "short": share([one for one in asked if one.short]),
        "long": share([one for one in asked if not one.short]),
        "flood": share([one for one in asked if one.tenant == "flood"]),
        "small": share([one for one in asked if one.tenant == "small"]),
        "wasted": sum(not one.good for one in answered) / max(len(answered), 1),
        "refused": len(refused),
        "refused_at_once_s_p50": sorted(refused)[len(refused) // 2] if refused else 0.0,
    }


def serve_model() -> dict[str, Any]:
    """0.8 and 2 times what the default model does here, under each way to admit.

    What it does is measured anew before each, for a machine that does other things meanwhile is not the same twice.
    """

    async def run(port: int) -> dict[str, Any]:
        timeout, limits = httpx.Timeout(_PATIENCE_S), httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=f"http://{HOST}:{port}", timeout=timeout, limits=limits) as client:
            found: dict[str, Any] = {}
            for load in (0.8, 2.0):
                per_s = await _capacity(client)  # the gateway learns the model's pace meanwhile
                figures = _figures(await _flood(client, load * per_s))
                found[f"{load}x"] = figures | {"of_capacity": figures["goodput_per_s"] / per_s, "capacity_per_s": per_s}
            return found

    report: dict[str, Any] = {"slots": _SLOTS}
    for name, admit in _ADMIT.items():
        policy = _MODEL_POLICY.format(slots=_SLOTS, admit=admit, flood=_sha256("flood"), small=_sha256("small"))
        with _serving(policy) as (port, _):
            report[name] = asyncio.run(run(port))
    return report


# ---- bodies that wait -----------------------------------------------------------------------------------------------

_WAITING, _BODY_BYTES = 2000, 100_000
_WAITING_POLICY = """
backends: {only: {use: fake, models: [m], concurrency: 1, fail: [{kind: hang}], repeat: true}}
routes:
  all:
    models: [m]
    targets: [only]
    admit: {use: fair_queue, limit: null, queue: 2000, wait_s: 1.0e+6, queue_bytes: 268435456}
    timeouts: {first_token_s: 900}
"""


def _rss_bytes(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


async def _until_queued(client: httpx.AsyncClient, count: int) -> None:
    queued = -1
    while queued != count:
        text = (await client.get("/metrics")).text
        queued = next(int(float(line.split()[-1])) for line in text.splitlines() if line.startswith("headrace_queued "))
        await asyncio.sleep(0.2)


async def _fill(port: int, pid: int) -> dict[str, Any]:
    body = b'{"model":"m","messages":[{"role":"user","content":"' + b"lorem ip " * (_BODY_BYTES // 9) + b'"}]}'
    async with (
        httpx.AsyncClient(base_url=f"http://{HOST}:{port}", timeout=600) as observer,
        httpx.AsyncClient(
            base_url=f"http://{HOST}:{port}", timeout=600, limits=httpx.Limits(max_connections=None)
        ) as client,
    ):
        before_bytes = _rss_bytes(pid)
        headers = {"content-type": "application/json"}
        tasks = [
            asyncio.create_task(client.post("/v1/chat/completions", content=body, headers=headers))
            for _ in range(_WAITING + 1)
        ]
        await _until_queued(observer, _WAITING)
        full_bytes = _rss_bytes(pid)
        begun_s = time.monotonic()
        one_more = await observer.post("/v1/chat/completions", content=body, headers=headers)
        said_no_s = time.monotonic() - begun_s
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
        await _until_queued(observer, 0)
        return {
            "waiting": _WAITING,
            "body_bytes": len(body),
            "rss_before_mb": before_bytes / 1e6,
            "rss_full_mb": full_bytes / 1e6,
            "per_body_byte": (full_bytes - before_bytes) / (_WAITING * len(body)),
            "one_more": one_more.status_code,
            "one_more_said_no_ms": said_no_s * 1000,
            "rss_after_mb": _rss_bytes(pid) / 1e6,
        }


def measure_memory() -> dict[str, Any]:
    """The process' resident memory before, with 2,000 requests of 100 KB in the queue, and after all have hung up."""
    with _serving(_WAITING_POLICY) as (port, pid):
        return asyncio.run(_fill(port, pid))
