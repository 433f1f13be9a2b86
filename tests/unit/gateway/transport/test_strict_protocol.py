"""Routes of the application: where the protocol parts from uvicorn's, and how errors and answers keep their order."""

from typing import Any

import pytest

from gateway.transport.server import protocol_class
from gateway.transport.server_limits import ServerLimits
from tests.memory_server import Kitchen, MemoryConnection, refuses, site, statuses

LIMITS = ServerLimits(max_header_bytes=4096, max_body_bytes=4096, body_timeout_s=3)
KEEP_ALIVE_S = 5
FAREWELL_BYTES = 256 * 1024
INFERENCE = b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}"
GET = b"GET /site HTTP/1.1\r\nhost: h\r\n\r\n"
CHUNKED = b"POST /site HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"
EXPECTING = b"POST /site HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n"


def _client(kitchen: Kitchen, app: Any = site) -> MemoryConnection:
    return MemoryConnection(protocol_class(kitchen, LIMITS), app)


async def _hasty(_: Any, __: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


async def _reads_all(_: Any, receive: Any, send: Any) -> None:
    message = await receive()
    while message.get("more_body"):
        message = await receive()
    if message["type"] == "http.request":
        await _hasty(_, receive, send)


async def test_who_waited_for_the_go_ahead_in_vain_is_let_go() -> None:
    """An answer without the go-ahead ends the connection: what follows may be its body or not."""
    client = _client(Kitchen(), _hasty)
    await client.send(EXPECTING % len(GET), GET, GET)
    assert [404] == statuses(client)
    assert b"\r\nconnection: close\r\n" in client.received
    assert client.over


async def test_a_body_that_breaks_is_a_400_and_the_application_hears_of_it() -> None:
    """The application, which waits for the rest, is told that the client is gone, and ends."""
    client = _client(Kitchen(), _reads_all)
    await client.send(CHUNKED + b"1\r\nx\r\n", b"nonsense\r\n")
    assert [400] == statuses(client)
    assert client.over
    assert not client.state.tasks


async def test_a_body_that_breaks_after_the_answer_has_no_second_one() -> None:
    """A request has one answer; what is wrong with its rest ends the connection and says nothing."""
    client = _client(Kitchen(), _hasty)
    await client.send(CHUNKED, b"nonsense\r\n")
    assert [404] == statuses(client)
    assert client.over


async def test_a_body_that_breaks_behind_another_request_is_told_in_its_turn() -> None:
    """The request is not served, its error comes after the answer that is due before, and nothing is read meanwhile."""
    kitchen, asked = Kitchen(slow=True), []

    async def app(scope: Any, *_: Any) -> None:
        asked.append(scope)

    client = _client(kitchen, app)
    await client.send(INFERENCE + CHUNKED + b"nonsense\r\n")
    assert (b"", False) == (client.received, client.transport.reading)
    kitchen.resume.set()
    await client.settle()
    assert [200, 400] == statuses(client)
    assert ([], True) == (asked, client.over)


async def test_nothing_is_read_after_what_is_no_request() -> None:
    """While the error waits for its turn, the client is not read from."""
    kitchen = Kitchen(slow=True)
    client = _client(kitchen)
    await client.send(INFERENCE, b"nonsense\r\n\r\n")
    assert not client.transport.reading
    kitchen.resume.set()
    await client.settle()
    assert client.transport.reading, "the rest is dropped, so that the client can read why"


async def test_the_rest_of_an_answered_body_has_its_time() -> None:
    """A body that goes on after the answer is dropped for as long as a body may take; then the connection ends."""
    for path, status in ((b"/v1/completions", 401), (b"/site", 404)):
        client = _client(Kitchen(refuses), _hasty)
        await client.send(b"POST %b HTTP/1.1\r\nhost: h\r\ncontent-length: 900\r\n\r\n" % path)
        client.loop.advance(LIMITS.body_timeout_s - 0.1)
        await client.send(b"x")
        assert ([status], False) == (statuses(client), client.over)
        client.loop.advance(0.2)
        assert client.over


async def test_a_connection_is_idle_when_the_rest_has_come() -> None:
    """When the rest of an answered body is there, the connection waits for the next request as always."""
    for path in (b"/v1/completions", b"/site"):
        client = _client(Kitchen(refuses), _hasty)
        await client.send(b"POST %b HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\n" % path, b"abc")
        client.loop.advance(KEEP_ALIVE_S - 0.1)
        assert not client.over
        client.loop.advance(0.2)
        assert client.over


async def test_a_farewell_is_short() -> None:
    """Who goes on sending after an error is listened to for a moment, and cut off then."""
    client = _client(Kitchen())
    await client.send(b"nonsense\r\n\r\n")
    assert (True, False) == (client.transport.wrote_eof, client.transport.closing)
    client.loop.advance(1)
    await client.send(b"more")
    client.loop.advance(1.1)
    assert client.transport.closing


@pytest.mark.parametrize("begin", [b"", INFERENCE, GET])
async def test_a_farewell_has_an_end_in_bytes(begin: bytes) -> None:
    """Who sends without end after an error is cut off long before the time of the farewell is over."""
    client = _client(Kitchen())
    await client.send(begin + b"nonsense\r\n\r\n", *[b"a" * FAREWELL_BYTES])
    assert 400 == statuses(client)[-1]
    assert not client.transport.closing
    await client.send(b"a")
    assert client.transport.aborted


async def test_nothing_is_taken_while_a_fault_waits_for_its_answer() -> None:
    """A request at fault is the last one: what follows it is left with the client until that knows, then dropped."""
    kitchen = Kitchen(slow=True)
    client = _client(kitchen)
    await client.send(INFERENCE + b"POST /v1/completions HTTP/1.1\r\n\r\n", *[b"a" * FAREWELL_BYTES] * 9)
    assert (False, b"") == (client.transport.reading, client.received)
    kitchen.resume.set()
    await client.settle()
    assert ([200, 400], True) == (statuses(client), client.transport.aborted)


async def test_a_farewell_in_a_body_may_be_as_long_as_a_body() -> None:
    """Who sends too long a body in chunks, and reads only then, can still read why."""
    limits = ServerLimits(max_header_bytes=4096, max_body_bytes=4 * FAREWELL_BYTES, body_timeout_s=3)
    client = MemoryConnection(protocol_class(Kitchen(), limits), site)
    chunk = b"%x\r\n%b\r\n" % (FAREWELL_BYTES, b"a" * FAREWELL_BYTES)
    await client.send(CHUNKED.replace(b"/site", b"/v1/completions"), *[chunk] * 8)
    assert ([413], False) == (statuses(client), client.transport.closing)
    await client.send(chunk)
    assert client.transport.aborted
