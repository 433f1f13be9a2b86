"""Clients that leave, on every endpoint: whatever they speak and whatever the upstream does, it stops at once."""

import asyncio
from typing import Any

import msgspec
import pytest

SAID = [{"role": "user", "content": "Say a few words."}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": SAID},
    "/v1/completions": {"prompt": "Once upon a time"},
    "/v1/messages": {"messages": SAID, "max_tokens": 100},
    "/v1/responses": {"input": "Say a few words."},
}
CHAT = [b'data: {"id":"u","model":"m","choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'] * 3
TEXT = [b'data: {"id":"u","model":"m","choices":[{"index":0,"text":"word "}]}\n\n'] * 3
MESSAGE = [
    (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"u","type":"message","role":"assistant",'
        b'"model":"m","content":[],"usage":{"input_tokens":5,"output_tokens":1}}}\n\n'
    ),
    (
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text",'
        b'"text":""}}\n\n'
    ),
    *[
        (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
            b'"text":"word "}}\n\n'
        )
    ]
    * 3,
]
PLACES = [
    *(("openai_compatible", path, TEXT if path == "/v1/completions" else CHAT) for path in BODIES),
    *(("anthropic", path, MESSAGE) for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses")),
]
every_place = pytest.mark.parametrize(
    ("use", "path", "events"), PLACES, ids=[f"{path} by {use}" for use, path, _ in PLACES]
)


def _body(path: str, *, stream: bool) -> bytes:
    return msgspec.json.encode({"model": "m", "stream": stream, **BODIES[path]})


@every_place
async def test_leaving_a_stream_after_three_words(gateway_over: Any, use: str, path: str, events: list[bytes]) -> None:
    """The upstream sees it within a second; what came is counted; it is the client's doing."""
    closed = asyncio.Event()

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(*events, end=False)
        await conversation.until_closed()
        closed.set()

    front, _ = await gateway_over(respond, use=use, models=["m"])
    client = await front.raw()
    await client.post(_body(path, stream=True), path=path)
    assert 200 == (await client.head()).status
    async for piece in client.chunks():
        if b"word" in piece:
            break
    client.hang_up()
    async with asyncio.timeout(1):
        await closed.wait()
    row = await front.row()
    assert ("client_gone", 499) == (row["status"], row["http_status"])
    (attempt,) = row["attempts_made"]
    assert ("client_gone", 1) == (attempt["status"], attempt["estimated"])
    assert attempt["output_tokens"] > 0
    assert 0 == front.gateway._fleet.in_flight["up"]


@every_place
async def test_giving_up_a_whole_answer_again_and_again(
    gateway_over: Any, eventually: Any, use: str, path: str, events: list[bytes]
) -> None:
    """One that retries has one generation at a time, and each is on the ledger."""
    del events
    most_at_once = 0

    async def respond(_: Any, conversation: Any) -> None:
        nonlocal most_at_once
        most_at_once = max(most_at_once, upstream.answering)
        await conversation.until_closed()

    front, upstream = await gateway_over(respond, use=use, models=["m"])
    for number in range(1, 6):
        client = await front.raw()
        await client.post(_body(path, stream=False), path=path)
        await upstream.until(lambda up, number=number: len(up.requests) == number)
        client.hang_up()
        async with asyncio.timeout(1):
            await upstream.until(lambda up: up.answering == 0)
    assert 1 == most_at_once
    await eventually(lambda: front.gateway.pipeline.running == 0)
    rows = await front.rows()
    assert [("client_gone", 499)] * 5 == [(row["status"], row["http_status"]) for row in rows]
