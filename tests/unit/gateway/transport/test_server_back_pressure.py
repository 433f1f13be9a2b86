"""The protocol in memory: clients that do not take their answers, and clients that are merely slow."""

from typing import Any

import pytest

from gateway.transport.server import protocol_class
from gateway.transport.server_limits import ServerLimits
from gateway.types import Operation
from tests.memory_server import Kitchen, MemoryConnection, statuses

LIMITS = ServerLimits(max_header_bytes=4096, max_body_bytes=4096, body_timeout_s=20, head_timeout_s=10)
KEEP_ALIVE_S = 5
FLUSH_S = 30
LONG_S = 1000
LARGE = b"x" * 100_000
"""An answer of which more is left unread than a transport likes to hold."""

CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}"
STREAM = CHAT.replace(b"/chat", b"")
GET = b"GET /site HTTP/1.1\r\nhost: h\r\n\r\n"
ANSWERED = pytest.mark.parametrize("request_", [CHAT, STREAM, GET], ids=["whole", "stream", "site"])


async def _serve(exchange: Any) -> None:
    await exchange.body()
    if exchange.operation is Operation.CHAT:
        await exchange.answer(200, (), LARGE)
        return
    await exchange.open(200, ())
    await exchange.write(LARGE)
    await exchange.close()


async def _site(_: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(LARGE))]})
    await send({"type": "http.response.body", "body": LARGE})


def _stuck() -> tuple[Kitchen, MemoryConnection]:
    """A client that reads nothing."""
    kitchen = Kitchen(_serve)
    client = MemoryConnection(protocol_class(kitchen, LIMITS), _site)
    client.transport.taking = False
    return kitchen, client


@ANSWERED
async def test_who_takes_nothing_is_served_no_more(request_: bytes) -> None:
    """However much is sent ahead, one answer is made, nothing more is read, and the rest follows when it is taken."""
    kitchen, client = _stuck()
    await client.send(request_ * 3, request_)
    assert ([200], False) == (statuses(client), client.transport.reading)
    for served in (2, 3, 4):
        client.transport.take(client.transport.unsent_bytes)
        await client.settle()
        assert [200] * served == statuses(client)
    client.transport.take(client.transport.unsent_bytes)
    await client.settle()
    assert client.transport.reading
    assert len(kitchen.exchanges) == len(kitchen.ends)


async def test_who_takes_nothing_is_cut_off() -> None:
    """When nothing has left for as long as a connection may be idle; requests that waited end as nobody's."""
    kitchen, client = _stuck()
    await client.send(CHAT * 3)
    client.loop.advance(KEEP_ALIVE_S - 0.1)
    assert not client.transport.aborted
    client.loop.advance(0.2)
    await client.settle()
    assert client.transport.aborted
    assert ["served", "ClientGone", "ClientGone"] == kitchen.ends


async def test_who_takes_little_is_waited_for() -> None:
    """A slow reader is none that is gone: with each byte that leaves it has its time anew, and is served on."""
    _, client = _stuck()
    await client.send(CHAT * 2)
    for _ in range(50):
        client.loop.advance(KEEP_ALIVE_S - 0.1)
        client.transport.take(1)
    assert not client.transport.closing
    client.transport.take(client.transport.unsent_bytes)
    await client.settle()
    assert [200] * 2 == statuses(client)


@pytest.mark.parametrize("taken_bytes", [0, 1])
@pytest.mark.parametrize("request_", [CHAT, GET], ids=["inference", "site"])
async def test_the_last_answer_is_waited_for_in_the_same_way(request_: bytes, taken_bytes: int) -> None:
    """Where the connection ends with the answer, who takes of it is waited for, and who does not is cut off."""
    _, client = _stuck()
    await client.send(request_.replace(b"host: h", b"host: h\r\nconnection: close"))
    assert (True, False) == (client.transport.closing, client.transport.lost)
    for _ in range(10):
        client.transport.take(taken_bytes)
        client.loop.advance(FLUSH_S)
    await client.settle()
    assert (taken_bytes == 0) is client.transport.aborted
    client.transport.taking = True
    client.transport.take(client.transport.unsent_bytes)
    await client.settle()
    assert client.transport.lost


async def test_nobody_is_cut_off_once_all_is_taken() -> None:
    """The time of who took nothing is not the next request's: that is served for as long as it takes."""
    kitchen, client = _stuck()
    await client.send(CHAT * 2)
    client.loop.advance(KEEP_ALIVE_S - 0.1)
    kitchen._serve = Kitchen(slow=True)._whole
    client.transport.take(client.transport.unsent_bytes)
    await client.settle()
    client.loop.advance(LONG_S)
    await client.settle()
    assert not client.transport.closing


async def test_a_head_behind_an_answer_has_its_time() -> None:
    """Half a head that came with a request whose answer is not taken: its time runs when it is read on, and then ends.

    Without a time of its own it would be waited for without end.
    """
    _, client = _stuck()
    await client.send(CHAT + b"POST /v1")
    client.loop.advance(KEEP_ALIVE_S - 0.1)
    client.transport.taking = True
    client.transport.take(client.transport.unsent_bytes)
    await client.settle()
    client.loop.advance(LIMITS.head_timeout_s - 0.1)
    assert [200] == statuses(client)
    client.loop.advance(0.2)
    assert [200, 408] == statuses(client)


async def test_an_idle_connection_is_one_whose_answer_is_taken() -> None:
    """The time between two requests begins when the answer has left, not when it was made."""
    _, client = _stuck()
    await client.send(CHAT)
    client.loop.advance(KEEP_ALIVE_S - 0.1)
    client.transport.take(client.transport.unsent_bytes)
    client.loop.advance(KEEP_ALIVE_S - 0.1)
    assert not client.transport.closing
    client.loop.advance(0.2)
    assert client.transport.closing
