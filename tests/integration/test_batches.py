"""Batches as real clients have them answered, over a real server; and what a ``kill -9`` leaves of them."""

import asyncio
import os
import re
import signal
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import msgspec
import openai
import pytest
import yaml

from tests.clients import openai_python
from tests.integration.served_process import ServedProcess, serve_process

CHAT = "/v1/chat/completions"
OVER = frozenset(("completed", "failed", "expired", "cancelled"))
PATIENCE_S = 30.0


def _line(name: str, **body: Any) -> bytes:
    asked = {"model": "fake", "messages": [{"role": "user", "content": f"Say {name}."}]}
    return msgspec.json.encode({"custom_id": name, "method": "POST", "url": CHAT, "body": {**asked, **body}})


async def _over(client: openai.AsyncOpenAI, batch_id: str) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            batch = await client.batches.retrieve(batch_id)
            if batch.status in OVER:
                return batch


async def test_openais_own_client_has_a_batch_answered() -> None:
    """The script that everybody can run: files, a batch, its results, and all else that the client does."""
    assert 0 == await openai_python.main()


async def test_a_large_file_goes_to_disk_as_it_comes(start_gateway: Any) -> None:
    """And comes back byte for byte."""
    running = await start_gateway()
    content = b"".join(_line(f"{n}-{'x' * 5000}") + b"\n" for n in range(2000))

    async def pieces() -> Any:
        yield b'--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--x\r\n'
        yield b'content-disposition: form-data; name="file"; filename="large.jsonl"\r\n\r\n'
        for start in range(0, len(content), 65_536):
            yield content[start : start + 65_536]
        yield b"\r\n--x--\r\n"

    form = {"content-type": "multipart/form-data; boundary=x"}
    answer = await running.http.post("/v1/files", content=pieces(), headers=form)
    assert (200, len(content)) == (answer.status_code, answer.json()["bytes"])
    back = await running.http.get(f"/v1/files/{answer.json()['id']}/content")
    assert content == back.content


async def test_who_hangs_up_while_uploading_leaves_nothing(start_gateway: Any) -> None:
    """Not even a piece."""
    running = await start_gateway()
    client = await running.raw()
    head = b"POST /v1/files HTTP/1.1\r\nhost: h\r\ncontent-length: 10000000\r\n"
    form = b"content-type: multipart/form-data; boundary=x\r\n\r\n"
    part = b'--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n' + b"x" * 600_000
    await client.send(head + form + part)
    tables = (await running.gateway._annex.wing())._batches._tables
    async with asyncio.timeout(PATIENCE_S):
        while (await tables.rows("SELECT count(*) FROM file_pieces"))[0][0] < 2:
            pass
    await client.close()
    async with asyncio.timeout(PATIENCE_S):
        while (await tables.rows("SELECT (SELECT count(*) FROM file_pieces) + (SELECT count(*) FROM files)"))[0][0]:
            pass


async def test_anthropics_own_client_has_a_batch_answered(start_gateway: Any) -> None:
    """Made, listed, read line by line and deleted; errors are in Anthropic's shapes."""
    running = await start_gateway({"backends": {"made-up": {"use": "fake", "text": "one two"}}})
    client = running.anthropic()
    asked = {"model": "fake", "max_tokens": 20, "messages": [{"role": "user", "content": "hi"}]}
    requests = [{"custom_id": "good", "params": asked}, {"custom_id": "bad", "params": {**asked, "messages": 3}}]
    begun = await client.messages.batches.create(requests=requests)
    assert ("in_progress", 2) == (begun.processing_status, begun.request_counts.processing)
    async with asyncio.timeout(PATIENCE_S):
        while (batch := await client.messages.batches.retrieve(begun.id)).processing_status != "ended":
            pass
    assert (1, 1, 0) == (
        batch.request_counts.succeeded,
        batch.request_counts.errored,
        batch.request_counts.processing,
    )
    good, bad = [one async for one in await client.messages.batches.results(batch.id)]
    assert ("good", "one two") == (good.custom_id, good.result.message.content[0].text)
    assert ("bad", "invalid_request_error") == (bad.custom_id, bad.result.error.error.type)
    assert [batch.id] == [one.id async for one in await client.messages.batches.list()]
    assert batch.id == (await client.messages.batches.delete(batch.id)).id
    with pytest.raises(Exception, match="not_found_error"):
        await client.messages.batches.retrieve(batch.id)
    with pytest.raises(Exception, match=r"invalid_request_error.*custom_id"):
        await client.messages.batches.create(requests=[requests[0], requests[0]])
    with pytest.raises(Exception, match=r"invalid_request_error.*stream"):
        await client.messages.batches.create(requests=[{"custom_id": "a", "params": {**asked, "stream": True}}])


PRICE = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 2}
QUICK = {"use": "fake", "models": {"fake": {"price": PRICE}}}
STUCK = {"use": "fake", "models": {"stuck": {"price": PRICE}}}
QUICK_LEASE: Mapping[str, str] = {"HEADRACE_BATCH_LEASE_S": "0.6", "HEADRACE_BATCH_LINES_AT_ONCE": "3"}
MODELS = ("fake", "fake", "fake", "stuck", "stuck", "stuck", "fake", "stuck")
"""What the lines of a batch ask for: with three at once, it stands still at the fourth."""


def _policy(*, stuck: bool) -> dict[str, Any]:
    """A model that answers at once, and one that does so if it is not ``stuck``."""
    return {
        "backends": {"quick": QUICK, "slow": {**STUCK, "first_token_s": 1000.0 if stuck else 0.0}},
        "routes": {
            "quick": {"models": ["fake"], "targets": ["quick/fake"]},
            "slow": {"models": ["stuck"], "targets": ["slow/stuck"]},
        },
    }


async def test_a_batch_survives_a_kill(start_process: Any) -> None:
    """Each line has one result; those in flight are sent again, and their first tries are on the ledger as left."""
    served = await start_process(_policy(stuck=True), **QUICK_LEASE)
    begun, left = await _begun_batch(served)
    served.signal(signal.SIGKILL)
    assert -signal.SIGKILL == await served.exit_code()
    async with serve_process(served.policy_file, QUICK_LEASE) as again:
        await _check_results(again, begun)
        again.signal(signal.SIGTERM)
        assert 0 == await again.exit_code()
    ends = _ends(served.policy_file)
    assert ["client_gone"] * 3 == [ends[request_id][0] for request_id in left]
    assert all(ends[request_id][1] > 0 for request_id in left)
    assert ["ok"] * len(MODELS) == [status for name, (status, _) in ends.items() if name not in left]


async def test_workers_that_are_killed_leave_their_batches_to_those_that_follow(start_process: Any) -> None:
    """Two at once, whichever of them ran it; asked for, any of them tells how far it is."""
    served = await start_process(_policy(stuck=True), HEADRACE_WORKERS="2", **QUICK_LEASE)
    for number in (0, 1):
        await served.until_logged(f"worker {number} serves")
    begun, left = await _begun_batch(served)
    for pid in re.findall(r"worker \d+ serves \(process (\d+)\)", "".join(served.log)):
        os.kill(int(pid), signal.SIGKILL)
    for number in (0, 1):
        await served.until_logged(f"(?s)(worker {number} serves.*){{2}}")
    await _check_results(served, begun)
    served.signal(signal.SIGTERM)
    assert 0 == await served.exit_code()
    ends = _ends(served.policy_file)
    assert ["ok"] * len(MODELS) == [status for name, (status, _) in ends.items() if name not in left]


async def _begun_batch(served: ServedProcess) -> tuple[str, list[str]]:
    """A batch of which three lines are answered and three in flight, and these lines' requests.

    Whoever comes next will answer them: the policy file says so by then.
    """
    async with await _client_of(served) as client:
        content = b"\n".join(_line(str(n), model=model) for n, model in enumerate(MODELS))
        file = await client.files.create(file=("in.jsonl", content), purpose="batch")
        begun = await client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
        async with asyncio.timeout(PATIENCE_S):
            while (await client.batches.retrieve(begun.id)).request_counts.completed < 3:
                pass
            while len(left := _begun(served.policy_file)) < 3:
                await client.batches.retrieve(begun.id)
    served.policy_file.write_text(yaml.safe_dump(_policy(stuck=False)), encoding="utf-8")
    return begun.id, left


async def _check_results(served: ServedProcess, batch_id: str) -> None:
    """The batch comes to its end, with one good result for each line."""
    async with await _client_of(served) as client:
        batch = await _over(client, batch_id)
        results = (await client.files.content(batch.output_file_id)).text.splitlines()
    assert ("completed", len(MODELS), None) == (batch.status, batch.request_counts.completed, batch.error_file_id)
    names = [msgspec.json.decode(one)["custom_id"] for one in results]
    assert [str(n) for n in range(len(MODELS))] == names


async def _client_of(served: ServedProcess) -> openai.AsyncOpenAI:
    port = (await served.until_logged(r"running on http://127\.0\.0\.1:(\d+)"))[1]
    transport = httpx.AsyncClient(timeout=PATIENCE_S)
    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x", http_client=transport)


def _begun(policy_file: Path) -> list[str]:
    """The requests that had begun when the process was killed."""
    with closing(sqlite3.connect(policy_file.parent / "batches.sqlite3")) as connection:
        return [row[0] for row in connection.execute("SELECT request_id FROM batch_tries")]


def _ends(policy_file: Path) -> dict[str, tuple[str, int]]:
    """How each request ended, and what it cost."""
    with closing(sqlite3.connect(policy_file.parent / "ledger.sqlite3")) as connection:
        rows = connection.execute("SELECT id, status, cost_pico_usd FROM requests").fetchall()
    assert len({row[0] for row in rows}) == len(rows)
    return {request_id: (status, cost) for request_id, status, cost in rows}
