"""Generated requests to uvicorn's own protocol and to ours: what application and client see is the same."""

import random
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.transport.request_framing import framing_fault
from gateway.transport.server import protocol_class
from gateway.transport.server_limits import ServerLimits
from tests.memory_server import MemoryConnection

LIMITS = ServerLimits(max_header_bytes=65_536, max_body_bytes=65_536, body_timeout_s=5)
METHODS = [b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH", b"QUERY"]
TARGETS = [
    b"/",
    b"/a/b?c=d&e=%20",
    b"/%E4%BD%A0",
    b"/a%2Fb",
    b"http://h/x?y",
    b"//x",
    b"/a#b",
    b"*",
    b"/early",
    b"/stream",
]
NAMES = [b"X-One", b"accept", b"Cookie", b"x_two", b"!#$%&'*+-.^_`|~9", b"authorization"]
VALUES = [b"", b"v", b"a, b", b"\xe4\xbd\xa0", b"a\tb", b"x" * 300]
BREAKS = [b"\r", b"\n", b"\x00", b" ", b":", b"\t", b"\x7f", b"\xff", b"HTTP/1.1", b"\r\n", b"content-length: 3\r\n"]


@dataclass
class Seen:
    """What an application saw."""

    scopes: list[dict[str, Any]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers whole, in chunks, or before it has read anything."""
        self.scopes.append({name: value for name, value in scope.items() if name != "state"})
        self.bodies.append(b"")
        while scope["path"] != "/early":
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            self.bodies[-1] += message["body"]
            if not message["more_body"]:
                break
        length = [] if scope["path"] == "/stream" and scope["http_version"] == "1.1" else [(b"content-length", b"4")]
        await send({"type": "http.response.start", "status": 200, "headers": [*length, (b"X-Case", b"Kept")]})
        await send({"type": "http.response.body", "body": b"ab", "more_body": True})
        await send({"type": "http.response.body", "body": b"cd"})


def _body(dice: random.Random) -> tuple[list[bytes], bytes]:
    """Framing header and body on the wire."""
    data = bytes(dice.choices(b"abc\r\n0;", k=dice.choice([0, 1, 5, 100, 5000])))
    kind = dice.random()
    if kind < 0.4:
        return [], b""
    if kind < 0.7:
        return [b"Content-Length: %d" % len(data)], data
    chunks = b""
    while data:
        size = dice.randint(1, len(data))
        extension = dice.choice([b"", b"", b";a", b";a=b", b';a="b c"'])
        chunks += b"%x%b\r\n%b\r\n" % (size, extension, data[:size])
        data = data[size:]
    return [b"Transfer-Encoding: " + dice.choice([b"chunked", b"Chunked", b"gzip, chunked"])], chunks + b"0\r\n\r\n"


def _request(dice: random.Random) -> bytes:
    framing, body = _body(dice)
    version = dice.choice([b"1.1"] * 6 + [b"1.0"])
    headers = [b"%b: %b" % (dice.choice(NAMES), dice.choice(VALUES)) for _ in range(dice.randint(0, 4))]
    headers += [b"Connection: " + dice.choice([b"keep-alive", b"close"])] if dice.random() < 0.3 else []
    headers += [b"Host: h"] if dice.random() < 0.97 else []
    headers += framing
    dice.shuffle(headers)
    line = b"%b %b HTTP/%b" % (dice.choice(METHODS), dice.choice(TARGETS), version)
    return b"\r\n".join([line, *headers, b"", b""]) + body


def _broken(dice: random.Random, request: bytes) -> bytes:
    """A request with one thing wrong somewhere: put in, taken out, or changed."""
    at = dice.randrange(len(request))
    cut = dice.choice([0, 0, 1, 2])
    return request[:at] + dice.choice([b"", *BREAKS]) + request[at + cut :]


def _cut(dice: random.Random, data: bytes) -> list[bytes]:
    """The same bytes in several reads."""
    cuts = sorted(dice.sample(range(1, len(data)), k=min(dice.choice([0, 0, 1, 3]), len(data) - 1)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


async def _exchange(kind: Any, pieces: list[bytes]) -> tuple[Seen, bytes, bool]:
    seen = Seen()
    client = MemoryConnection(kind, seen.app)
    await client.send(*pieces)
    over = client.over
    received = client.received
    await client.leave()
    return seen, received, over


def _stricter(scope: dict[str, Any]) -> bool:
    """Whether we refuse what uvicorn took, and say so in the documentation."""
    names = [name for name, _ in scope["headers"]]
    codings = [value for name, value in scope["headers"] if name == b"transfer-encoding"]
    fault = framing_fault(scope["http_version"], names.count(b"host"), b", ".join(codings) if codings else None)
    return fault is not None


def _refusal(received: bytes) -> bytes | None:
    """What came before a refusal at the end; ``None`` where there is none."""
    found = re.search(rb"HTTP/1.1 400 Bad Request\r\n(?:.+\r\n)+\r\n.*\Z", received)
    return received[: found.start()] if found else None


@pytest.mark.parametrize("seed", range(25))
async def test_the_same_requests_have_the_same_effect(seed: int) -> None:
    """200 connections a seed, of one to three requests each, whole ones and broken ones, in one read or in several."""
    dice = random.Random(seed)  # noqa: S311  # the tests' dice
    ours = protocol_class(None, LIMITS)  # type: ignore[arg-type]  # no request is for inference
    refused = 0
    for _ in range(200):
        pieces = [piece for _ in range(dice.randint(0, 2)) for piece in _cut(dice, _request(dice))]
        last = _request(dice)
        pieces += _cut(dice, _broken(dice, last) if dice.random() < 0.4 else last)
        expected, expected_bytes, expected_over = await _exchange(HttpToolsProtocol, pieces)
        actual, actual_bytes, actual_over = await _exchange(ours, pieces)
        strict = next((at for at, scope in enumerate(expected.scopes) if _stricter(scope)), None)
        if strict is not None:
            assert expected.scopes[:strict] == actual.scopes
            assert _refusal(actual_bytes) is not None
            assert actual_over
            refused += 1
            continue
        assert (expected.scopes, expected_over) == (actual.scopes, actual_over), pieces
        if (before := _refusal(expected_bytes)) is None:
            assert (expected.bodies, expected_bytes) == (actual.bodies, actual_bytes), pieces
        else:
            # Uvicorn leaves out answers to what came in the same read as an error after it, and says 400 also where
            # the request whose body is at fault had its answer.
            answered = _refusal(actual_bytes)
            assert (actual_bytes if answered is None else answered).startswith(before), pieces
            refused += 1
    assert 10 < refused < 190
