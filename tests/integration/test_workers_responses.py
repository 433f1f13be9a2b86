"""Answers of ``/v1/responses`` where several workers serve: whichever is met knows what any of them answered."""

import asyncio
from typing import Any

import msgspec

FAKE = {"backends": {"made-up": {"use": "fake"}}}
MANY = 16
"""So many connections all go to one worker once in 32,768 runs."""


async def _asked(served: Any, method: str, path: str, fields: dict[str, Any] | None = None) -> tuple[int, Any]:
    """Status and body of one request on a connection of its own, which the kernel gives to any worker."""
    client = await served.connect()
    body = b"" if fields is None else msgspec.json.encode(fields)
    head = f"{method} {path} HTTP/1.1\r\nhost: h\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    await client.send(head.encode(), body)
    answer = await client.answer()
    await client.close()
    return answer.status, msgspec.json.decode(answer.body)


async def test_every_worker_finds_an_answer(start_process: Any) -> None:
    """It is shown, gone on from and forgotten by all."""
    served = await start_process(FAKE, HEADRACE_WORKERS="2")
    await asyncio.gather(*(served.until_logged(f"worker {number} serves") for number in (0, 1)))
    _, first = await _asked(served, "POST", "/v1/responses", {"model": "fake", "input": "hi"})
    one = f"/v1/responses/{first['id']}"

    shown = await asyncio.gather(*(_asked(served, "GET", one) for _ in range(MANY)))
    assert [(200, first["id"])] * MANY == [(status, body["id"]) for status, body in shown]

    again = {"model": "fake", "input": "and?", "previous_response_id": first["id"]}
    gone_on = await asyncio.gather(*(_asked(served, "POST", "/v1/responses", again) for _ in range(MANY)))
    assert [(200, first["id"])] * MANY == [(status, body["previous_response_id"]) for status, body in gone_on]

    assert 200 == (await _asked(served, "DELETE", one))[0]
    missing = await asyncio.gather(*(_asked(served, "GET", one) for _ in range(MANY)))
    assert [404] * MANY == [status for status, _ in missing]
