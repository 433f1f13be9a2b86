"""Requests whose end two parsers may see in different places: refused on every route, and nothing of them is served."""

import re
from typing import Any

import pytest

from gateway.errors import HeadraceError
from gateway.transport.server import protocol_class
from gateway.transport.server_limits import ServerLimits
from gateway.wire.openai_errors import error_body
from tests.memory_server import MemoryConnection

LIMITS = ServerLimits(max_header_bytes=4096, max_body_bytes=4096, body_timeout_s=5)
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: h\r\n\r\n"

HEADERS = {
    "conflicting lengths": b"content-length: 1\r\ncontent-length: 2\r\n",
    "the same length twice": b"content-length: 1\r\ncontent-length: 1\r\n",
    "a list of lengths": b"content-length: 1, 1\r\n",
    "a length with a sign": b"content-length: +1\r\n",
    "a negative length": b"content-length: -1\r\n",
    "a length in hex": b"content-length: 0x1\r\n",
    "a length with an exponent": b"content-length: 1e1\r\n",
    "a length with an underscore": b"content-length: 1_0\r\n",
    "a length with a blank": b"content-length: 1 1\r\n",
    "a length with a vertical tab": b"content-length: \x0b1\r\n",
    "an empty length": b"content-length:\r\n",
    "a length over 64 bits": b"content-length: 18446744073709551616\r\n",
    "a length and chunks": b"content-length: 1\r\ntransfer-encoding: chunked\r\n",
    "chunks and a length": b"transfer-encoding: chunked\r\ncontent-length: 1\r\n",
    "identity, chunked": b"transfer-encoding: identity, chunked\r\n",
    "gzip, chunked": b"transfer-encoding: gzip, chunked\r\n",
    "nothing, chunked": b"transfer-encoding: , chunked\r\n",
    "chunked, identity": b"transfer-encoding: chunked, identity\r\n",
    "chunked twice": b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
    "chunked and identity": b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
    "identity and chunked": b"transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n",
    "xchunked": b"transfer-encoding: xchunked\r\n",
    "chunkedchunked": b"transfer-encoding: chunkedchunked\r\n",
    "quoted chunked": b'transfer-encoding: "chunked"\r\n',
    "chunked with a parameter": b"transfer-encoding: chunked;q=1\r\n",
    "gzip": b"transfer-encoding: gzip\r\n",
    "identity": b"transfer-encoding: identity\r\n",
    "an empty coding": b"transfer-encoding:\r\n",
    "a vertical tab before chunked": b"transfer-encoding: \x0bchunked\r\n",
    "NUL after chunked": b"transfer-encoding: chunked\x00\r\n",
    "a blank before the colon": b"transfer-encoding : chunked\r\n",
    "a tab before the colon": b"transfer-encoding\t: chunked\r\n",
    "a folded coding": b"transfer-encoding:\r\n chunked\r\n",
    "a folded header": b"x: a\r\n b\r\n",
    "a header folded by a tab": b"x: a\r\n\tb\r\n",
    "a bare LF": b"x: a\ntransfer-encoding: chunked\r\n",
    "a bare CR": b"x: a\rtransfer-encoding: chunked\r\n",
    "CR CR LF": b"x: a\r\r\n",
    "NUL in a value": b"x: a\x00b\r\n",
    "NUL in a name": b"x\x00: a\r\n",
    "a control character": b"x: a\x01b\r\n",
    "a line without a colon": b"transfer-encoding chunked\r\n",
    "an empty name": b": chunked\r\n",
    "a blank in a name": b"x y: a\r\n",
    "a second host": b"host: other\r\n",
}

LINES = {
    "no host": b"POST %b HTTP/1.1\r\n\r\n",
    "HTTP/0.9": b"POST %b\r\n\r\n",
    "HTTP/0.9 by name": b"POST %b HTTP/0.9\r\nhost: h\r\n\r\n",
    "HTTP/2.0": b"POST %b HTTP/2.0\r\nhost: h\r\n\r\n",
    "HTTP/1.2": b"POST %b HTTP/1.2\r\nhost: h\r\n\r\n",
    "chunks in HTTP/1.0": b"POST %b HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "an end in LF": b"POST %b HTTP/1.1\nhost: h\n\n",
    "an end in CR": b"POST %b HTTP/1.1\rhost: h\r\r",
    "a last line that ends in LF": b"POST %b HTTP/1.1\r\nhost: h\r\n\n",
    "a folded first line": b"POST %b HTTP/1.1\r\n host: h\r\n\r\n",
    "a blank at the end": b"POST %b HTTP/1.1 \r\nhost: h\r\n\r\n",
    "the version in lower case": b"POST %b http/1.1\r\nhost: h\r\n\r\n",
    "a tab for a blank": b"POST\t%b HTTP/1.1\r\nhost: h\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n%.0b",
    "a tunnel": b"CONNECT h:443 HTTP/1.1\r\nhost: h\r\n\r\n%.0b",
}

CHUNKS = {
    "0x": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a blank before": b" 5\r\nhello\r\n0\r\n\r\n",
    "a blank behind": b"5 \r\nhello\r\n0\r\n\r\n",
    "a blank before an extension": b"5 ;a\r\nhello\r\n0\r\n\r\n",
    "a sign": b"+5\r\nhello\r\n0\r\n\r\n",
    "negative": b"-5\r\nhello\r\n0\r\n\r\n",
    "an underscore": b"0_5\r\nhello\r\n0\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "over 64 bits": b"ffffffffffffffff1\r\nhello\r\n0\r\n\r\n",
    "LF after the size": b"5\nhello\r\n0\r\n\r\n",
    "CR after the size": b"5\rhello\r\n0\r\n\r\n",
    "LF after the data": b"5\r\nhello\n0\r\n\r\n",
    "nothing after the data": b"5\r\nhello0\r\n\r\n",
    "more data than said": b"5\r\nhelloX\r\n0\r\n\r\n",
    "NUL in an extension": b"5;a\x00\r\nhello\r\n0\r\n\r\n",
    "LF in an extension": b"5;a\nhello\r\n0\r\n\r\n",
    "CR in an extension": b"5;a\rX\r\nhello\r\n0\r\n\r\n",
    "an end in LF": b"5\r\nhello\r\n0\n\n",
    "a length in the trailers": b"5\r\nhello\r\n0\r\ncontent-length: 5\r\n\r\n",
    "a coding in the trailers": b"5\r\nhello\r\n0\r\ntransfer-encoding: chunked\r\n\r\n",
    "a folded trailer": b"5\r\nhello\r\n0\r\nx: a\r\n b\r\n\r\n",
    "a trailer that is none": b"5\r\nhello\r\n0\r\nx a\r\n\r\n",
}


class Served:
    """Both sides of the house: what got through to either."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.scopes: list[Any] = []
        self.refused = 0

    async def handle(self, exchange: Any) -> None:
        """As the pipeline: the body, then the answer, or the error."""
        try:
            self.bodies.append(await exchange.body())
            await exchange.answer(200, (), b"served")
        except HeadraceError as error:
            self.refused += 1
            await exchange.answer(error.http_status, (), error_body(error))

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """As the site: the body, then the answer."""
        self.scopes.append(scope)
        while (message := await receive())["type"] == "http.request":
            if not message["more_body"]:
                await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
                await send({"type": "http.response.body", "body": b""})
                return


@pytest.fixture(params=[b"/v1/chat/completions", b"/v1/models"], ids=["inference", "site"])
def path(request: pytest.FixtureRequest) -> bytes:
    """A route of each kind."""
    return request.param


async def _is_refused(path: bytes, request: bytes, *, byte_by_byte: bool) -> None:
    served = Served()
    client = MemoryConnection(protocol_class(served, LIMITS), served.app)
    data = request + SMUGGLED
    await client.send(*([data[at : at + 1] for at in range(len(data))] if byte_by_byte else [data]))
    assert client.received.startswith(b"HTTP/1.1 400 "), client.received
    assert 1 == len(re.findall(rb"HTTP/1.1 \d", client.received))
    assert b"\r\nconnection: close\r\n" in client.received
    assert client.over
    assert [] == served.bodies
    assert b"/smuggled" not in {scope["raw_path"] for scope in served.scopes}
    assert served.refused <= (path == b"/v1/chat/completions")
    await client.leave()


@pytest.mark.parametrize("byte_by_byte", [False, True])
@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
async def test_heads_that_can_be_read_in_two_ways(path: bytes, headers: bytes, byte_by_byte: bool) -> None:
    """Refused with 400 and the end of the connection, and what follows is no request."""
    request = b"POST %b HTTP/1.1\r\nhost: h\r\n%b\r\n" % (path, headers)
    await _is_refused(path, request, byte_by_byte=byte_by_byte)


@pytest.mark.parametrize("byte_by_byte", [False, True])
@pytest.mark.parametrize("request_", LINES.values(), ids=LINES)
async def test_lines_and_versions_that_can(path: bytes, request_: bytes, byte_by_byte: bool) -> None:
    """The same for what is wrong with the lines themselves, and with the version."""
    await _is_refused(path, request_ % path, byte_by_byte=byte_by_byte)


@pytest.mark.parametrize("byte_by_byte", [False, True])
@pytest.mark.parametrize("body", CHUNKS.values(), ids=CHUNKS)
async def test_chunks_that_can(path: bytes, body: bytes, byte_by_byte: bool) -> None:
    """The same for chunks and trailers."""
    request = b"POST %b HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n%b" % (path, body)
    await _is_refused(path, request, byte_by_byte=byte_by_byte)


@pytest.mark.parametrize("byte_by_byte", [False, True])
@pytest.mark.parametrize("kind", [b"websocket", b"h2c"])
async def test_a_declined_upgrade_leaves_the_body_a_body(path: bytes, kind: bytes, byte_by_byte: bool) -> None:
    """What follows the head of a request that asks for another protocol is its body, not the next request."""
    served = Served()
    client = MemoryConnection(protocol_class(served, LIMITS), served.app)
    head = b"POST %b HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: %b\r\ncontent-length: %d\r\n\r\n"
    data = head % (path, kind, len(SMUGGLED)) + SMUGGLED
    await client.send(*([data[at : at + 1] for at in range(len(data))] if byte_by_byte else [data]))
    assert client.received.startswith(b"HTTP/1.1 200 ")
    assert 1 == len(re.findall(rb"HTTP/1.1 \d", client.received))
    assert not client.over
    assert [path] == [scope["raw_path"] for scope in served.scopes] or [SMUGGLED] == served.bodies
    await client.leave()


async def test_trailers_are_no_headers(path: bytes) -> None:
    """What a client adds after the body cannot pass for a header."""
    seen: list[Any] = []

    class Headers(Served):
        async def handle(self, exchange: Any) -> None:
            await super().handle(exchange)
            seen.extend(exchange.headers)

        async def app(self, scope: Any, receive: Any, send: Any) -> None:
            await super().app(scope, receive, send)
            seen.extend(scope["headers"])

    served = Headers()
    client = MemoryConnection(protocol_class(served, LIMITS), served.app)
    request = b"POST %b HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n0\r\nauthorization: Bearer k\r\n\r\n"
    await client.send(request % path)
    assert client.received.startswith(b"HTTP/1.1 200 ")
    assert [(b"host", b"h"), (b"transfer-encoding", b"chunked")] == seen
    await client.leave()
