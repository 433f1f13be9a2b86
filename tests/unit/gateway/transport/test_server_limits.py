"""The protocol in memory: limits of what a client may take, and what comes of those who break."""

from typing import Any

import pytest

from gateway.errors import RequestTimeout
from gateway.transport.server import protocol_class
from gateway.transport.server_limits import ServerLimits
from tests.memory_server import Kitchen, MemoryConnection, site, statuses

LIMITS = ServerLimits(
    max_header_bytes=4096, max_body_bytes=1 << 20, body_timeout_s=5, max_headers=20, head_timeout_s=10
)
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\n"
REQUEST = HEAD + b"content-length: 2\r\n\r\n{}"
KEEP_ALIVE_S = 5
LONG_S = 1000


def _client(kitchen: Kitchen) -> MemoryConnection:
    return MemoryConnection(protocol_class(kitchen, LIMITS), site)


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        ([b"POST /x", *[b"x" * 1000] * 5], 414),
        ([HEAD, *[b"a: " + b"x" * 1000 + b"\r\n"] * 5], 431),
        ([HEAD + b"a: ", *[b"x" * 1000] * 5], 431),
        ([HEAD, b"a: b\r\n" * 30], 431),
        ([HEAD + b"a: b\r\n" * 30 + b"\r\n"], 431),
    ],
)
async def test_a_head_is_limited_while_it_arrives(pieces: list[bytes], status: int) -> None:
    """Too long a line, too many bytes or too many headers are refused before the head is complete."""
    client = _client(Kitchen())
    await client.send(*pieces)
    assert [status] == statuses(client)
    assert client.over


@pytest.mark.parametrize(
    "pieces",
    [
        [b"1;" + b"x" * 1000 + b"\r\nx\r\n"] * 8,
        [b"1;", *[b"x" * 1000] * 8],
        [b"0\r\na: ", *[b"x" * 1000] * 8],
        [b"0\r\n", *[b"a: b\r\n" * 100] * 10],
    ],
    ids=["many extensions", "a long extension", "a long trailer", "many trailers"],
)
async def test_what_stands_around_chunks_is_limited(pieces: list[bytes]) -> None:
    """Endless extensions or trailers are refused."""
    kitchen = Kitchen()
    client = _client(kitchen)
    await client.send(HEAD + b"transfer-encoding: chunked\r\n\r\n", *pieces)
    assert [400] == statuses(client)
    assert ["InvalidRequest"] == kitchen.ends


async def test_small_chunks_are_not_too_much_around_them() -> None:
    """A body in chunks of one byte is not refused for what stands around them."""
    client = _client(Kitchen())
    await client.send(HEAD + b"transfer-encoding: chunked\r\n\r\n", *[b"1\r\nx\r\n" * 100] * 100, b"0\r\n\r\n")
    assert client.received.endswith(b"x" * 10_000)


async def test_slow_heads_and_bodies() -> None:
    """A head or body that stops on its way is a 408, and the end of the connection."""
    kitchen = Kitchen()
    slow_head, slow_body = _client(kitchen), _client(kitchen)
    await slow_head.send(b"POST /v1/chat")
    slow_head.loop.advance(LIMITS.head_timeout_s)
    await slow_body.send(HEAD + b"content-length: 9\r\n\r\n{")
    slow_body.loop.advance(LIMITS.body_timeout_s)
    await slow_body.settle()
    assert [408] == statuses(slow_head) == statuses(slow_body)
    assert [RequestTimeout.__name__] == kitchen.ends
    assert slow_head.over
    assert slow_body.over


async def test_a_slow_head_behind_a_slow_body() -> None:
    """The end of a body and the beginning of the next head in one read: the head has its own time, and no more."""
    client = _client(Kitchen())
    await client.send(REQUEST[:-1], REQUEST[-1:] + HEAD)
    assert [200] == statuses(client)
    client.loop.advance(LIMITS.head_timeout_s)
    assert [200, 408] == statuses(client)
    assert client.over


@pytest.mark.parametrize("sent", [b"", b"\r\n\r\n", REQUEST, b"GET /site HTTP/1.1\r\nhost: h\r\n\r\n"])
async def test_idle_connections_are_closed(sent: bytes) -> None:
    """A connection on which nothing is asked is closed when its time is over, not before."""
    client = _client(Kitchen())
    await client.send(sent)
    client.loop.advance(KEEP_ALIVE_S - 0.1)
    assert not client.over
    client.loop.advance(0.2)
    assert client.transport.closing


async def test_a_served_request_has_all_the_time_it_takes() -> None:
    """No timer of an idle or slow client's runs while an answer is made."""
    kitchen = Kitchen(slow=True)
    client = _client(kitchen)
    await client.send(REQUEST)
    client.loop.advance(LONG_S)
    assert not client.over
    kitchen.resume.set()
    await client.settle()
    assert [200] == statuses(client)


async def test_a_client_that_does_not_read_the_end_is_cut_off() -> None:
    """A connection that was closed and is not let go of ends all the same."""
    client = _client(Kitchen())
    client.transport.close = lambda: setattr(client.transport, "closing", True)  # type: ignore[method-assign]  # never flushed
    await client.send(REQUEST.replace(b"host: h", b"host: h\r\nconnection: close"))
    client.loop.advance(LONG_S)
    assert client.transport.aborted


async def test_shutdown_ends_idle_connections_and_marks_the_others() -> None:
    """On uvicorn's word an idle connection closes, and one that serves closes with its answer."""
    kitchen = Kitchen(slow=True)
    idle, busy = _client(kitchen), _client(kitchen)
    await busy.send(REQUEST)
    idle.protocol.shutdown()
    busy.protocol.shutdown()
    assert (True, False) == (idle.over, busy.over)
    kitchen.resume.set()
    await busy.settle()
    assert b"\r\nconnection: close\r\n" in busy.received
    assert busy.over


@pytest.mark.parametrize("started", [False, True])
async def test_an_exchange_that_is_left_to_itself(started: bool) -> None:
    """Whoever serves and breaks leaves a 500 where nothing was said, and a cut, never an end, where something was."""

    async def breaks(exchange: Any) -> None:
        if started:
            await exchange.open(200, ())
        raise ZeroDivisionError

    client = _client(Kitchen(breaks))
    await client.send(REQUEST)
    assert ([200] if started else [500]) == statuses(client)
    assert started is client.transport.aborted
    assert client.over
    assert not client.received.endswith(b"0\r\n\r\n")


async def test_a_line_break_in_a_header_is_never_sent() -> None:
    """A value that would be a header or an answer of its own is a bug, and goes nowhere."""

    async def splits(exchange: Any) -> None:
        await exchange.answer(200, ((b"a", b"b\r\nset-cookie: c"),), b"")

    client = _client(Kitchen(splits))
    await client.send(REQUEST)
    assert [] == [status for status in statuses(client) if status == 200]
    assert b"set-cookie" not in client.received


async def test_the_limit_on_concurrency_is_uvicorns() -> None:
    """Over ``limit_concurrency`` inference is answered as uvicorn answers everything else then."""
    kitchen = Kitchen()
    client = _client(kitchen)
    client.protocol.limit_concurrency = 1
    await client.send(REQUEST)
    assert ([503], []) == (statuses(client), kitchen.exchanges)
