"""The protocol in memory: what it writes and when, what it holds back, and how a connection ends."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.errors import ClientGone
from gateway.transport.server import protocol_class
from gateway.transport.server_limits import ServerLimits
from tests.memory_server import Kitchen, MemoryConnection, refuses, site, statuses, streams

LIMITS = ServerLimits(
    max_header_bytes=4096, max_body_bytes=1 << 20, body_timeout_s=5, max_headers=20, head_timeout_s=10
)
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\n"
REQUEST = HEAD + b"content-length: 2\r\n\r\n{}"


def _client(kitchen: Kitchen) -> MemoryConnection:
    return MemoryConnection(protocol_class(kitchen, LIMITS), site)


@pytest.fixture
def idle_collector() -> Iterator[None]:
    """The garbage collector does not look for cycles."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("idle_collector")
@pytest.mark.parametrize("slow", [True, False])
async def test_a_connection_that_is_over_leaves_nothing_for_the_garbage_collector(slow: bool) -> None:
    """Whether the client leaves after its answer or before: it is freed at once."""
    kitchen = Kitchen(slow=slow)
    client = _client(kitchen)
    await client.send(REQUEST)
    await client.leave()
    protocol = weakref.ref(client.protocol)
    client.transport.protocol = None  # which a real transport forgets by itself
    kitchen.exchanges.clear()
    del client
    for _ in range(10):
        await asyncio.sleep(0)
    assert protocol() is None


async def test_an_exchange_shows_no_key_by_mistake() -> None:
    """What a log or an error may say of it are not its headers, nor its body."""
    kitchen = Kitchen(slow=True)
    await _client(kitchen).send(HEAD + b'authorization: Bearer sk-secret\r\ncontent-length: 8\r\n\r\n"secret"')
    (exchange,) = kitchen.exchanges
    assert b"Bearer sk-secret" in dict(exchange.headers).values()
    assert "secret" not in repr(exchange)


async def test_a_whole_answer_is_one_write() -> None:
    """Head and body go out together, with the date, the length and nothing more."""
    client = _client(Kitchen())
    await client.send(REQUEST)
    head = b"HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\na: b\r\ncontent-length: 2\r\n\r\n"
    assert [head + b"{}"] == client.transport.written


async def test_each_piece_of_a_stream_is_one_write() -> None:
    """A chunk's size, data and end are one write; an empty piece is none, since it would be the last chunk."""
    client = _client(Kitchen(streams))
    await client.send(REQUEST)
    assert [b"3\r\none\r\n", b"3\r\ntwo\r\n", b"5\r\nthree\r\n", b"0\r\n\r\n"] == client.transport.written[1:]
    assert b"\r\ntransfer-encoding: chunked\r\n" in client.transport.written[0]


async def test_http_1_0_ends_with_the_connection() -> None:
    """A stream to a client of HTTP/1.0 is the data alone."""
    client = _client(Kitchen(streams))
    await client.send(REQUEST.replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert [b"one", b"two", b"three"] == client.transport.written[1:]
    assert client.over


async def test_write_waits_only_while_the_client_is_behind() -> None:
    """A write returns at once until the transport says that it is full, then when it no longer is."""
    kitchen = Kitchen(streams)
    client = _client(kitchen)
    client.protocol.pause_writing()
    await client.send(REQUEST)
    assert [b"3\r\none\r\n"] == client.transport.written[1:]
    client.protocol.resume_writing()
    await client.settle()
    assert b"0\r\n\r\n" == client.transport.written[-1]
    assert ["served"] == kitchen.ends


async def test_a_body_that_nobody_wants_yet_is_not_read() -> None:
    """Reading pauses at 64 KB until the body is asked for, and the rest is read then."""
    begun = asyncio.Event()

    async def late(exchange: Any) -> None:
        await begun.wait()
        await exchange.answer(200, (), b"%d" % len(await exchange.body()))

    client = _client(Kitchen(late))
    await client.send(HEAD + b"content-length: 200000\r\n\r\n", *[b"x" * 50_000] * 4)
    assert not client.transport.reading
    begun.set()
    await client.settle()
    assert client.transport.reading
    assert client.received.endswith(b"\r\n\r\n200000")


async def test_requests_sent_ahead_wait_their_turn() -> None:
    """A second request is neither begun nor read past while the first is not answered; other routes wait, too."""
    kitchen = Kitchen(slow=True)
    client = _client(kitchen)
    await client.send(REQUEST + b"GET /site HTTP/1.1\r\nhost: h\r\n\r\n" + REQUEST)
    assert (1, False) == (len(kitchen.exchanges), client.transport.reading)
    kitchen.resume.set()
    await client.settle()
    assert [200, 200, 200] == statuses(client)
    assert client.received.index(b"site") < client.received.rindex(b"{}")
    assert client.transport.reading


async def test_reading_goes_on_when_nobody_waits() -> None:
    """A connection whose requests were sent ahead is read again after the last answer."""
    client = _client(Kitchen())
    await client.send(REQUEST * 3, REQUEST)
    assert [200] * 4 == statuses(client)


async def test_an_error_waits_for_the_answers_before_it() -> None:
    """What is no request is answered after what was asked before it, never in the middle."""
    kitchen = Kitchen(slow=True)
    client = _client(kitchen)
    await client.send(REQUEST + b"nonsense\r\n\r\n")
    assert b"" == client.received
    kitchen.resume.set()
    await client.settle()
    assert [200, 400] == statuses(client)
    assert client.over


@pytest.mark.parametrize("rest", [b"\r\n", b"host: h\r\ntransfer-encoding: chunked\r\n\r\nnonsense"])
async def test_a_faulty_request_waits_for_its_turn(rest: bytes) -> None:
    """A request that is at fault in its head or body is served its error after the answer before it."""
    kitchen = Kitchen(slow=True)
    client = _client(kitchen)
    await client.send(REQUEST + b"POST /v1/completions HTTP/1.1\r\n" + rest)
    assert b"" == client.received
    kitchen.resume.set()
    await client.settle()
    assert [200, 400] == statuses(client)
    assert ["served", "InvalidRequest"] == kitchen.ends
    assert client.over


async def test_leaving_ends_all_that_was_asked() -> None:
    """The request under way is cancelled; those behind it are told, too, so that each has its entry."""
    kitchen = Kitchen(slow=True)
    client = _client(kitchen)
    await client.send(REQUEST * 3)
    await client.leave()
    assert ["ClientGone", "ClientGone", "cancelled"] == sorted(kitchen.ends)
    assert all(exchange.gone for exchange in kitchen.exchanges)
    assert b"" == client.received


async def test_leaving_before_the_task_has_begun() -> None:
    """A hang-up in the same turn as the request does not lose the exchange."""
    kitchen = Kitchen()
    client = _client(kitchen)
    client.protocol.data_received(REQUEST)
    await client.leave()
    assert ["ClientGone"] == kitchen.ends


async def test_leaving_after_the_answer_cancels_nothing() -> None:
    """Who leaves when the answer is out has missed nothing; the task ends by itself."""
    after = asyncio.Event()

    async def lingers(exchange: Any) -> None:
        await exchange.answer(200, (), await exchange.body())
        await after.wait()

    kitchen = Kitchen(lingers)
    client = _client(kitchen)
    await client.send(REQUEST)
    client.transport.close()
    await client.settle()
    after.set()
    await client.settle()
    assert (["served"], False) == (kitchen.ends, kitchen.exchanges[0].gone)


async def test_leaving_in_the_middle_of_a_body() -> None:
    """Whoever waits for the body learns that it will not come."""
    kitchen = Kitchen()
    client = _client(kitchen)
    await client.send(HEAD + b"content-length: 9\r\n\r\n{")
    await client.leave()
    assert [ClientGone.__name__] == kitchen.ends


async def test_an_early_answer_leaves_the_connection_in_step() -> None:
    """An answer before the body's end: the rest is read and dropped, and the next request is served."""
    kitchen = Kitchen(refuses)
    client = _client(kitchen)
    await client.send(
        HEAD + b"content-length: 300000\r\n\r\n", *[b"x" * 100_000] * 3, b"GET /site HTTP/1.1\r\nhost: h\r\n\r\n"
    )
    assert [401, 200] == statuses(client)
    assert [] == kitchen.exchanges[0].pieces


async def test_an_early_answer_to_who_waits_for_the_go_ahead_ends_the_connection() -> None:
    """Whether that client sends its body cannot be known, so nothing after it is read as a request."""
    client = _client(Kitchen(refuses))
    await client.send(
        HEAD + b"expect: 100-continue\r\ncontent-length: 5\r\n\r\n", b"GET /site HTTP/1.1\r\nhost: h\r\n\r\n"
    )
    assert [401] == statuses(client)
    assert b"\r\nconnection: close\r\n" in client.received
    assert client.over


async def test_no_go_ahead_where_the_body_is_there_already() -> None:
    """Nobody waits for it."""
    client = _client(Kitchen())
    await client.send(HEAD + b"expect: 100-continue\r\ncontent-length: 2\r\n\r\n{}")
    assert [200] == statuses(client)


async def test_a_body_that_breaks_is_told_by_who_serves_it() -> None:
    """A chunk that is none ends the exchange with an error of the client's, and the connection after it."""
    kitchen = Kitchen()
    client = _client(kitchen)
    await client.send(HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n", b"nonsense\r\n")
    assert ["InvalidRequest"] == kitchen.ends
    assert [400] == statuses(client)
    assert client.over
