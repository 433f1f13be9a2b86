"""Streams on their way: at once, unbuffered, at the client's pace; and what is left when they are cut."""

import asyncio
import gc
import tracemalloc
from typing import Any

import msgspec
import pytest

STREAM = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'
MiB = 2**20
SOCKET_BYTES = 12 * MiB
"""What kernel, transports and parsers may hold of a stream between them, on both sides of the gateway."""


def _event(text: str, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return b"data: " + msgspec.json.encode({"id": "u", "model": "m", "choices": [choice]}) + b"\n\n"


BIG = _event("x" * 2**16)


@pytest.mark.parametrize("coding", ["gzip, deflate, br, zstd", "identity"])
async def test_stream_headers_ask_nobody_to_buffer(running: Any, coding: str) -> None:
    """A stream says that it must not be cached, transformed or held back, and is never compressed."""
    async with running.stream(headers={"accept-encoding": coding}) as response:
        assert "text/event-stream; charset=utf-8" == response.headers["content-type"]
        assert "no-cache, no-transform" == response.headers["cache-control"]
        assert "no" == response.headers["x-accel-buffering"]
        assert "chunked" == response.headers["transfer-encoding"]
        assert not {"content-encoding", "content-length"} & response.headers.keys()


async def test_each_event_passes_as_soon_as_it_is_there(gateway_over: Any) -> None:
    """An event reaches the client while the upstream waits for word that it did."""
    arrived: asyncio.Queue[None] = asyncio.Queue()

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(_event("0"), end=False)
        for number in range(1, 20):
            await arrived.get()
            await conversation.send(b"%x\r\n%b\r\n" % (len(_event(str(number))), _event(str(number))))
        await arrived.get()
        last = _event("", "stop") + b"data: [DONE]\n\n"
        await conversation.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last))

    front, _ = await gateway_over(respond)
    client = await front.raw()
    await client.post(STREAM)
    assert 200 == (await client.head()).status
    async with asyncio.timeout(5):
        pieces = []
        async for piece in client.chunks():
            pieces.append(piece)
            arrived.put_nowait(None)
    assert [_event(str(number)) for number in range(20)] == pieces[:20]


async def test_a_body_of_twenty_megabytes(gateway_over: Any) -> None:
    """A large request passes whole."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(b'{"choices":[{"index":0,"message":{"content":"ok"},"finish_reason":"stop"}]}')

    front, upstream = await gateway_over(respond)
    text = "x" * (20 * MiB)
    assert 200 == (await front.post({"messages": [{"role": "user", "content": text}]})).status_code
    assert text == upstream.requests[0].json["messages"][0]["content"]


@pytest.fixture
async def pouring(gateway_over: Any) -> Any:
    """A gateway whose upstream pours out a stream for as long as somebody takes it, and counts what it got rid of."""
    poured = {"bytes": 0, "closed": asyncio.Event()}

    async def respond(_: Any, conversation: Any) -> None:
        conversation.writer.transport.set_write_buffer_limits(high=2**16)
        try:
            await conversation.stream(_event("Hi"), end=False)
            while True:
                await conversation.send(b"%x\r\n%b\r\n" % (len(BIG), BIG))
                poured["bytes"] += len(BIG)
        except ConnectionError:
            poured["closed"].set()

    front, _ = await gateway_over(respond)
    return front, poured


async def _until_it_stands_still(poured: dict[str, Any]) -> int:
    """How much was poured when no more of it is taken for a good while."""
    turn, loop, last_bytes = asyncio.Event(), asyncio.get_running_loop(), -1
    while poured["bytes"] != last_bytes:
        last_bytes = poured["bytes"]
        assert last_bytes < 10 * SOCKET_BYTES, "the upstream is never paused"
        turn.clear()
        loop.call_later(0.15, turn.set)
        await turn.wait()
    return last_bytes


async def test_a_client_that_does_not_read_pauses_the_upstream(pouring: Any) -> None:
    """A client that stops reading stops the upstream too, in bounded memory, and goes on where it was."""
    front, poured = pouring
    client = await front.raw(receive_buffer_bytes=2**14)
    tracemalloc.start()
    try:
        await client.post(STREAM)
        assert 200 == (await client.head()).status
        standing_bytes = await _until_it_stands_still(poured)
        gc.collect()
        held_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert standing_bytes < SOCKET_BYTES
    assert held_bytes < 4 * MiB
    taken = b""
    async with asyncio.timeout(10):
        async for piece in client.chunks():
            taken += piece
            if poured["bytes"] > standing_bytes:
                break
    assert taken.startswith(_event("Hi") + BIG)


async def test_the_hang_up_of_a_paused_client_is_noticed(pouring: Any) -> None:
    """A client that leaves without having read closes the upstream at once, and is recorded as gone."""
    front, poured = pouring
    client = await front.raw(receive_buffer_bytes=2**14)
    await client.post(STREAM)
    assert 200 == (await client.head()).status
    await _until_it_stands_still(poured)
    client.hang_up()
    async with asyncio.timeout(1):
        await poured["closed"].wait()
    assert "client_gone" == (await front.row())["status"]


async def test_a_paused_client_is_not_held_against_the_upstream(start_gateway: Any) -> None:
    """The idle limit is the upstream's: a client that pauses longer gets its whole stream when it reads on."""
    backend = {"use": "fake", "text": "x" * 2**16, "tokens": 400}
    front = await start_gateway({"backends": {"b": backend}, "defaults": {"timeouts": {"idle_s": 0.1}}})
    client = await front.raw(receive_buffer_bytes=2**14)
    await client.post(STREAM)
    assert 200 == (await client.head()).status
    paused = asyncio.Event()
    asyncio.get_running_loop().call_later(0.4, paused.set)
    await paused.wait()
    assert 1 == front.gateway.pipeline.running
    rest = b"".join([piece async for piece in client.chunks()])
    assert rest.endswith(b"data: [DONE]\n\n")
    assert 400 * 2**16 < len(rest)
    assert "ok" == (await front.row())["status"]


async def test_a_pipeliner_that_hangs_up_ends_the_request_that_runs(start_gateway: Any, eventually: Any) -> None:
    """A client that leaves with a second request in the queue ends the first; the second is never begun."""
    front = await start_gateway({"backends": {"b": {"use": "fake", "tokens": 10**6, "seconds_per_token": 0.001}}})
    client = await front.raw()
    await client.post(STREAM)
    await client.post(STREAM)
    assert 200 == (await client.head()).status
    client.hang_up()
    await eventually(lambda: front.gateway.pipeline.running == 0, within_s=1)
    assert (1, 1) == (front.backend("b").open_calls, front.backend("b").closed_calls)


async def test_rows_are_as_many_as_requests(start_gateway: Any, eventually: Any) -> None:
    """Two hundred requests that end in all ways are two hundred rows, on disk when the server has stopped."""
    fail = [
        None,
        {"kind": "status", "status": 500},
        {"kind": "cut", "after_chunks": 2},
        {"kind": "stall"},
        {"kind": "garbage"},
    ]
    backend = {"use": "fake", "fail": fail, "repeat": True}
    timeouts = {"idle_s": 0.05, "total_s": 0.5}
    front = await start_gateway({"backends": {"a": backend, "b": backend}, "defaults": {"timeouts": timeouts}})
    bodies: list[Any] = [{"stream": True}, {}, b"no JSON", {"stream": True, "n": 2}, {"max_tokens": 0}]

    async def leave() -> None:
        client = await front.raw()
        await client.post(STREAM)
        await client.head()
        client.hang_up()

    await asyncio.gather(*(front.post(bodies[number % 5]) for number in range(160)), *(leave() for _ in range(40)))
    await eventually(lambda: front.gateway._ledger.recorded == 200)
    assert {"ok", "rejected"} < {row["status"] for row in await front.rows()}
    await front.stop()
    assert 200 == await front.gateway._rows.count()
    assert sum(front.gateway._fleet.in_flight.values()) == 0
    for name in ("a", "b"):
        assert front.backend(name).open_calls == front.backend(name).closed_calls
