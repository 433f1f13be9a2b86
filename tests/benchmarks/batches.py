"""What batches cost: an upload's memory, a line's CPU time, and what somebody waits who asks beside one.

    python tests/benchmarks/batches.py               200 MiB, 3,000 lines, five minutes of asking: some seven minutes
    python tests/benchmarks/batches.py --short       20 MiB, 600 lines, half a minute

A gateway in a process of its own over the fake backend.

*Upload*: resident memory of the process before, and at its most while a file comes in. *CPU*: of a gateway that answers
so many lines of a batch, and of one that answers as many requests of a client on eight connections; the client's own is
not in it. *Beside*: a backend with four places, each answer takes 0.2 s; somebody asks again and again, with a pause of
0.05 s, alone and while a batch takes what is left. The ratio of the two medians and of the two 99th percentiles is the
promise: 1 is nothing.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from figures import table
from proc import cpu_s, resident_bytes
from programs import HOST, free_port, stop, wait_until_up

OUT = Path(__file__).with_name("out") / "batches.json"
CHAT = "/v1/chat/completions"
MIB = 1024 * 1024
QUICK = "use: fake, text: one two three, models: [m]"
SLOW = "use: fake, text: one two three, first_token_s: 0.2, concurrency: 4, models: [m]"
_BODY = {"model": "m", "messages": [{"role": "user", "content": "Say a few words."}]}


@contextmanager
def gateway(backend: str, **settings: str) -> Iterator[tuple[int, str]]:
    """A gateway over one backend: its process and its address."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        policy = folder / "policy.yaml"
        admit = "{use: fair_queue, limit: null}"
        policy.write_text(
            f"backends:\n  a: {{{backend}}}\nroutes:\n  r: {{models: [m], targets: [a/m], admit: {admit}}}\n"
        )
        environment = {"HEADRACE_STATE_DIR": name, "HEADRACE_PORT": str(port), "PATH": "/usr/bin:/bin", **settings}
        command = [sys.executable, "-m", "gateway", "serve", str(policy)]
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        try:
            wait_until_up(process, port, "/readyz")
            yield process.pid, f"http://{HOST}:{port}"
        finally:
            stop(process)


def lines(count: int) -> bytes:
    """A file of so many chats."""
    each = {"method": "POST", "url": CHAT, "body": _BODY}
    return b"\n".join(json.dumps({"custom_id": str(n), **each}).encode() for n in range(count))


async def hand_in(client: httpx.AsyncClient, count: int) -> str:
    """A batch of so many lines; its name."""
    form = {"files": {"file": ("in.jsonl", lines(count))}, "data": {"purpose": "batch"}}
    file = (await client.post("/v1/files", **form)).json()["id"]
    asked = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}
    return str((await client.post("/v1/batches", json=asked)).json()["id"])


async def status(client: httpx.AsyncClient, batch: str) -> dict[str, Any]:
    """How far a batch is."""
    return dict((await client.get(f"/v1/batches/{batch}")).json())


async def until(client: httpx.AsyncClient, batch: str, wanted: str) -> None:
    """Returns when the batch is so far; it is looked at four times a second."""
    while True:
        if (await status(client, batch))["status"] == wanted:
            return
        await asyncio.sleep(0.25)


async def upload(size_bytes: int) -> dict[str, float]:
    """Resident memory before and at its most, in MiB, and how long the upload took."""
    with gateway(QUICK) as (pid, address):
        async with httpx.AsyncClient(base_url=address, timeout=600) as client:
            await client.get("/v1/files")
            before_bytes = most_bytes = resident_bytes(pid)
            began_s = time.monotonic()
            sending = asyncio.create_task(_send(client, size_bytes))
            while not sending.done():
                await asyncio.sleep(0.02)
                most_bytes = max(most_bytes, resident_bytes(pid))
            (await sending).raise_for_status()
            return {
                "file_mib": size_bytes / MIB,
                "before_mib": before_bytes / MIB,
                "more_mib": (most_bytes - before_bytes) / MIB,
                "took_s": time.monotonic() - began_s,
            }


async def _send(client: httpx.AsyncClient, size_bytes: int) -> httpx.Response:
    async def pieces() -> Any:
        yield b'--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--x\r\n'
        yield b'content-disposition: form-data; name="file"; filename="large.jsonl"\r\n\r\n'
        for _ in range(size_bytes // 65_536):
            yield b"x" * 65_536
        yield b"\r\n--x--\r\n"

    headers = {"content-type": "multipart/form-data; boundary=x"}
    return await client.post("/v1/files", content=pieces(), headers=headers)


async def cpu(count: int) -> dict[str, float]:
    """CPU time of the gateway for each line, and for each request, in microseconds; and lines in a second."""
    with gateway(QUICK) as (pid, address):
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            before_s, began_s = cpu_s(pid), time.monotonic()
            batch = await hand_in(client, count)
            await until(client, batch, "completed")
            line_s, took_s = cpu_s(pid) - before_s, time.monotonic() - began_s
    with gateway(QUICK) as (pid, address):
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            before_s = cpu_s(pid)

            async def ask() -> None:
                for _ in range(count // 8):
                    (await client.post(CHAT, json=_BODY)).raise_for_status()

            await asyncio.gather(*[ask() for _ in range(8)])
            request_s = cpu_s(pid) - before_s
    return {
        "line_cpu_us": line_s / count * 1e6,
        "request_cpu_us": request_s / (count // 8 * 8) * 1e6,
        "lines_per_s": count / took_s,
    }


async def beside(seconds: float) -> dict[str, float]:
    """What somebody waits, in milliseconds, alone and beside a batch; and how many lines were answered meanwhile."""
    waits_ms: dict[str, list[float]] = {}
    answered = 0.0
    for case in ("alone", "beside"):
        with gateway(SLOW) as (_, address):
            async with httpx.AsyncClient(base_url=address, timeout=60) as client:
                batch = await hand_in(client, 50_000) if case == "beside" else ""
                if batch:
                    await until(client, batch, "in_progress")
                waits_ms[case] = await _ask_for(client, seconds / 2)
                if batch:
                    answered = float((await status(client, batch))["request_counts"]["completed"])
    centiles = {case: statistics.quantiles(waits, n=100) for case, waits in waits_ms.items()}
    told = {f"{case}_p{n}_ms": found[n - 1] for case, found in centiles.items() for n in (50, 99)}
    ratios = {f"ratio_p{n}": centiles["beside"][n - 1] / centiles["alone"][n - 1] for n in (50, 99)}
    return {**told, **ratios, "lines_meanwhile": answered}


async def _ask_for(client: httpx.AsyncClient, seconds: float) -> list[float]:
    waits_ms: list[float] = []
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        began_s = time.monotonic()
        (await client.post(CHAT, json=_BODY)).raise_for_status()
        waits_ms.append((time.monotonic() - began_s) * 1000)
        await asyncio.sleep(0.05)
    return waits_ms


def main() -> int:
    """Measures, prints a table and writes it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    short = parser.parse_args().short
    found = {
        "upload": asyncio.run(upload((20 if short else 199) * MIB)),
        "cpu": asyncio.run(cpu(600 if short else 3000)),
        "beside": asyncio.run(beside(30 if short else 300)),
    }
    rows = [(f"{part}: {name}", f"{value:,.2f}") for part, told in found.items() for name, value in told.items()]
    print(table(["what", "figure"], rows))
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
