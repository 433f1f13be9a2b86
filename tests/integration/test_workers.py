"""``headrace serve --workers 2``: real processes that share an address, a policy file, a ledger and an engine."""

import asyncio
import os
import re
import signal
import sqlite3
import subprocess
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from gateway.process.worker_line import Assignment
from gateway.telemetry import sibling_metrics

Eventually = Callable[..., Awaitable[None]]

FAKE = {"backends": {"made-up": {"use": "fake"}}}
SLOW = {"backends": {"slow": {"use": "fake", "tokens": 30, "seconds_per_token": 0.04}}}
STALLED = {"backends": {"stalled": {"use": "fake", "fail": [{"kind": "stall", "after_chunks": 2}], "repeat": True}}}
WHOLE = b'{"model":"fake","messages":[{"role":"user","content":"hi"}]}'
STREAM = b'{"model":"fake","stream":true,"messages":[{"role":"user","content":"hi"}]}'
MANY = 16
"""So many connections all go to one worker once in 32,768 runs."""
_ENGINE_S = 120.0
"""For an engine to start on a machine that has other work: it loads a model and measures itself."""


@pytest.fixture
def start_workers(start_process: Any) -> Callable[..., Awaitable[Any]]:
    """Starts two workers, and waits until both serve."""

    async def start(policy: Any, **environment: str) -> Any:
        served = await start_process(policy, HEADRACE_WORKERS="2", **environment)
        serving = (served.until_logged(f"worker {number} serves", within_s=_ENGINE_S) for number in (0, 1))
        await asyncio.gather(*serving)
        return served

    return start


def _pids(served: Any) -> dict[int, int]:
    """The process of each worker, as the log told last."""
    told = re.findall(r"worker (\d+) serves \(process (\d+)\)", "".join(served.log))
    return {int(worker): int(pid) for worker, pid in told}


def _run_dir(pid: int) -> Path:
    """Where a worker meets its siblings, as its command line has it."""
    command = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, check=True).stdout
    return Path(msgspec.json.decode(command.partition(b"--worker ")[2], type=Assignment).run_dir)


def _children(pid: int) -> int:
    """How many processes it has started that are there."""
    parents = subprocess.run(["ps", "-ax", "-o", "ppid="], capture_output=True, check=True).stdout.split()
    return parents.count(str(pid).encode())


def _are_gone(pids: Iterable[int]) -> bool:
    return not any(sibling_metrics._is_alive(pid) for pid in pids)


async def _ask(served: Any, count: int, body: bytes = WHOLE) -> list[int]:
    """The statuses of so many requests at once, each on a connection of its own."""

    async def ask_once() -> int:
        client = await served.connect()
        await client.post(body)
        status: int = (await client.answer()).status
        await client.close()
        return status

    return await asyncio.gather(*(ask_once() for _ in range(count)))


async def _streaming(served: Any, count: int) -> list[Any]:
    clients = [await served.connect() for _ in range(count)]
    for client in clients:
        await client.post(STREAM)
    assert [200] * count == [(await client.head()).status for client in clients]
    return clients


async def _rest(client: Any) -> bytes:
    """The rest of a stream, as far as it comes."""
    pieces: list[bytes] = []
    try:
        async for piece in client.chunks():
            pieces.append(piece)  # noqa: PERF401  # what came before a break is kept
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    return b"".join(pieces)


def _is_whole(rest: bytes) -> bool:
    return rest.endswith(b"data: [DONE]\n\n") and b"error" not in rest


async def _counted(served: Any) -> float:
    """The requests that one scrape says have ended."""
    client = await served.connect()
    await client.send(b"GET /metrics HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
    answer = await client.answer()
    await client.close()
    return sum(map(float, re.findall(rb"^headrace_requests_total\{.*\} (\S+)$", answer.body, re.MULTILINE)))


async def _until_all_count(served: Any, expected: float, eventually: Eventually) -> None:
    """Returns when so many scrapes in a row say the same that both workers must have been asked."""
    seen: list[float] = []

    async def scrape() -> None:
        while seen[-MANY:] != [expected] * MANY:
            seen.append(await _counted(served))

    scraping = asyncio.create_task(scrape())
    try:
        await eventually(scraping.done)
    finally:
        scraping.cancel()
    assert max(seen) == expected


def _rows(served: Any) -> int:
    with closing(sqlite3.connect(served.policy_file.parent / "ledger.sqlite3")) as connection:
        (count,) = connection.execute("SELECT count(DISTINCT id) FROM requests").fetchone()
        return int(count)


async def test_both_serve_and_each_speaks_for_both(start_workers: Any, eventually: Eventually) -> None:
    """Requests are spread over both; whoever is scraped gives the sum; the ledger has a row for each."""
    served = await start_workers(FAKE)
    run_dir = _run_dir(_pids(served)[0])
    assert [200] * 2 * MANY == await _ask(served, 2 * MANY)
    await _until_all_count(served, 2 * MANY, eventually)
    pages = [sibling_metrics._read(run_dir / f"metrics-{worker}.msgpack") for worker in (0, 1)]
    shares = [sum(total for _, total in page.counted.totals["headrace_requests"]) for page in pages if page]
    assert 2 * MANY == sum(shares)
    assert all(shares)
    assert 1 == "".join(served.log).count("running on http://")
    served.signal(signal.SIGTERM)
    assert 0 == await served.exit_code()
    assert 2 * MANY == len(served.rows())
    assert _are_gone(_pids(served).values())
    assert not run_dir.exists()
    assert not [line for line in served.log if "ERROR" in line or "Traceback" in line]


@pytest.mark.parametrize("to_all", [False, True])
async def test_a_drain_lets_the_streams_of_all_finish(start_workers: Any, *, to_all: bool) -> None:
    """One SIGTERM drains both workers; a service manager that sends it to every process does no harm."""
    served = await start_workers(SLOW)
    clients = await _streaming(served, MANY)
    served.signal(signal.SIGTERM)
    if to_all:
        await served.until_logged(r"(?s)(draining.*){3}")
        for pid in _pids(served).values():
            os.kill(pid, signal.SIGTERM)
    assert [True] * MANY == [_is_whole(rest) for rest in await asyncio.gather(*map(_rest, clients))]
    assert 0 == await served.exit_code()
    assert [("ok", 200)] * MANY == served.rows()
    assert _are_gone(_pids(served).values())


async def test_a_second_signal_ends_all_now(start_workers: Any) -> None:
    """Streams that would never end are ended, each with its row."""
    served = await start_workers(STALLED, HEADRACE_DRAIN_S="600")
    await _streaming(served, MANY)
    served.signal(signal.SIGTERM)
    await served.until_logged("draining")
    served.signal(signal.SIGTERM)
    assert 0 == await served.exit_code()
    assert MANY == len(served.rows())
    assert _are_gone(_pids(served).values())


async def test_a_worker_that_still_starts_is_not_waited_for(start_process: Any, eventually: Eventually) -> None:
    """It may have a model to load, which nobody will ask any more."""
    served = await start_process(FAKE, HEADRACE_WORKERS="2")
    await served.until_logged("worker 0 serves")
    await eventually(lambda: _children(served.process.pid) == 2)
    served.signal(signal.SIGTERM)
    assert 0 == await served.exit_code()
    assert "worker 1 serves" not in "".join(served.log)
    assert "Traceback" not in "".join(served.log)


async def test_a_reload_reaches_all(start_workers: Any) -> None:
    """After one SIGHUP every worker knows the new file."""
    served = await start_workers(FAKE)
    policy = {"backends": {"other": {"use": "fake"}}, "routes": {"r": {"models": ["new"], "targets": ["other"]}}}
    served.policy_file.write_text(yaml.safe_dump(policy), encoding="utf-8")
    served.signal(signal.SIGHUP)
    await served.until_logged(r"(?s)(the policy file was reloaded.*){2}")
    assert [404] * MANY == await _ask(served, MANY)
    assert [200] * MANY == await _ask(served, MANY, WHOLE.replace(b"fake", b"new"))


async def test_a_worker_that_dies_is_replaced_and_the_other_serves_on(
    start_workers: Any, eventually: Eventually
) -> None:
    """Its streams break, the other's do not; what both had counted and written before stays."""
    served = await start_workers(SLOW)
    assert [200] * MANY == await _ask(served, MANY)
    await _until_all_count(served, MANY, eventually)
    await eventually(lambda: MANY == _rows(served))
    before = _pids(served)
    clients = await _streaming(served, MANY)
    os.kill(before[1], signal.SIGKILL)
    whole = [_is_whole(rest) for rest in await asyncio.gather(*map(_rest, clients))]
    assert 0 < sum(whole) < MANY
    await served.until_logged(r"(?s)(worker 1 serves.*){2}")
    after = _pids(served)
    assert before[0] == after[0]
    assert before[1] != after[1]
    assert [200] * MANY == await _ask(served, MANY)
    await _until_all_count(served, 2 * MANY + sum(whole), eventually)
    served.signal(signal.SIGTERM)
    assert 0 == await served.exit_code()
    assert 2 * MANY + sum(whole) == _rows(served)


async def test_nothing_remains_of_a_parent_that_is_killed(start_workers: Any, eventually: Eventually) -> None:
    """The workers end their answers within their time, and go."""
    served = await start_workers(STALLED, HEADRACE_DRAIN_S="0.1")
    clients = await _streaming(served, MANY)
    run_dir = _run_dir(_pids(served)[0])
    served.process.kill()
    rests = await asyncio.gather(*map(_rest, clients))
    assert [True] * MANY == [b"shutting_down" in rest for rest in rests]
    await eventually(lambda: _are_gone(_pids(served).values()))
    assert not run_dir.exists()
    assert MANY == len(served.rows())


async def test_what_cannot_be_started_is_told_once(start_process: Any) -> None:
    """A mistake in the configuration is one line and exit code 1, however many workers there should be."""
    backend = {"use": "openai_compatible", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "KEY_THAT_NOBODY_SET"}
    served = await start_process({"backends": {"up": backend}}, HEADRACE_WORKERS="3")
    assert 1 == await served.exit_code()
    await served.until_logged("headrace: .*KEY_THAT_NOBODY_SET")
    assert 1 == len(served.log)


async def test_an_address_in_use_is_no_clean_end(start_process: Any, start_gateway: Any) -> None:
    """Workers may share an address with each other, and with nobody else."""
    taken = await start_gateway()
    served = await start_process(FAKE, HEADRACE_PORT=str(taken.port), HEADRACE_WORKERS="2")
    assert 3 == await served.exit_code()
    await served.until_logged("address already in use")
    await served.until_logged("nothing is served: .*HEADRACE_PORT")


@pytest.mark.model
@pytest.mark.timeout(3 * _ENGINE_S)
async def test_one_engine_serves_all(start_workers: Any, default_model_path: Path, eventually: Eventually) -> None:
    """There is one process however many workers; killed, it is followed by one; it ends with the gateway."""
    local = {"use": "embedded", "slots": 4, "context_tokens": 512, "threads": 1, "restart_min_s": 0.05}
    served = await start_workers({"backends": {"local": local}}, HEADRACE_MODEL_DIR=str(default_model_path.parent))
    body = WHOLE.replace(b"{", b'{"max_tokens":2,', 1)
    for lives in (1, 2):
        await served.until_logged(rf"(?s)(local is ready.*){{{2 * lives}}}", within_s=_ENGINE_S)
        assert [200] * 6 == await _ask(served, 6, body)
        engines = [int(pid) for pid in re.findall(r"engine process (\d+) started", "".join(served.log))]
        assert lives == len(engines)
        if lives == 1:
            os.kill(engines[0], signal.SIGKILL)
    served.signal(signal.SIGTERM)
    assert 0 == await served.exit_code()
    await eventually(lambda: _are_gone(engines))
    assert 12 == len(served.rows())
