"""Heads that come again: whatever follows, a request is served as it is on a connection that knows no heads."""

import random
import re
from itertools import pairwise
from typing import Any

import pytest

from gateway.exchange import RepeatedHeaders
from gateway.transport import server
from gateway.transport.known_head import KnownHead
from gateway.transport.server import protocol_class
from gateway.transport.server_limits import ServerLimits
from gateway.types import Operation
from tests.fuzzing.clients import SERVICES
from tests.memory_server import Kitchen, MemoryConnection, site

LIMITS = ServerLimits(max_header_bytes=4096, max_body_bytes=5000, body_timeout_s=5)
START = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer k\r\n"
HEADS = [
    START + b"Content-Length: %d\r\n\r\n",
    START + b"content-length:%d \r\naccept: */*\r\n\r\n",
    START + b"x: content-length: 3\r\nCONTENT-LENGTH: %d\r\n\r\n",
    START + b"content-length: %d\r\nexpect: 100-continue\r\n\r\n",
    START + b"content-length: %d\r\ncontent-encoding: identity\r\n\r\n",
    START + b"content-length: %d\r\nconnection: close\r\n\r\n",
    START + b"content-length: %d\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
    START.replace(b"1.1", b"1.0") + b"content-length: %d\r\nconnection: keep-alive\r\n\r\n",
    b"POST /v1/embeddings HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n",
    b"POST /elsewhere HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n",
]
CHUNKED = START + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"


class Reading(Kitchen):
    """Keeps what it has read, and answers with its length."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[tuple[Any, ...]] = []

    async def handle(self, exchange: Any) -> None:
        """Serves one."""
        try:
            body = await exchange.body()
        except Exception as error:
            self.read.append((exchange.operation, list(exchange.headers), type(error).__name__))
            raise
        self.read.append((exchange.operation, list(exchange.headers), body))
        await exchange.answer(200, [(b"a", b"b")], b"%d" % len(body))


def _conversation(dice: random.Random) -> list[bytes]:
    """What a client sends, most of it with heads that repeat, cut anywhere."""
    heads = dice.choices(HEADS[: dice.choice([1, 2, 3, len(HEADS)])], k=dice.randint(2, 6))
    sent = b""
    for head in heads:
        body = bytes(dice.choices(b"abc\r\n0 ", k=dice.choice([0, 1, 9, 10, 99, 4999, 5000, 5001])))
        sent += head % len(body) + body
        if dice.random() < 0.05:
            sent += CHUNKED
        if dice.random() < 0.05:
            sent += dice.choice([b"\r\n", b"x", HEADS[0].replace(b"%d", dice.choice([b"", b"-1", b"1 2", b"9" * 12]))])
    if dice.random() < 0.3:
        return [sent]
    cuts = sorted({0, len(sent), *(dice.randrange(len(sent)) for _ in range(dice.choice([0, 3, 20])))})
    cuts = sorted(
        {*cuts, *(at + 4 for at in range(len(sent)) if dice.random() < 0.7 and sent.startswith(b"\r\n\r\n", at))}
    )
    cuts = sorted({*cuts, *(at for at in range(len(sent)) if dice.random() < 0.9 and sent.startswith(b"POST", at))})
    return [sent[begin:end] for begin, end in pairwise(cuts)]


async def _served(pieces: list[bytes]) -> tuple[list[Any], list[bytes], bool]:
    kitchen = Reading()
    client = MemoryConnection(protocol_class(kitchen, LIMITS), site)
    for piece in pieces:
        await client.send(piece)
    await client.leave()
    written = [re.sub(rb"req_\w+", b"req_", data) for data in client.transport.written]
    return kitchen.read, written, client.over


@pytest.mark.parametrize("seed", range(300))
async def test_a_known_head_changes_nothing_that_anybody_sees(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what is read, not what is answered, and not when the connection ends."""
    pieces = _conversation(random.Random(seed))  # noqa: S311  # dice for a test
    known = await _served(pieces)
    monkeypatch.setattr(server, "_MOST_HEADS", 0)
    assert await _served(pieces) == known


async def _lived(service: str, pieces: list[bytes], dice: random.Random) -> tuple[Any, ...]:
    """What becomes of it where time passes, the client does not read or leaves, or the server is to end."""
    kitchen = SERVICES[service]()
    client = MemoryConnection(protocol_class(kitchen, LIMITS), site)
    for piece in pieces:
        await client.send(piece)
        match dice.choice(["go on"] * 12 + ["resume", "wait", "wait long", "hold", "take", "shutdown", "leave"]):
            case "resume":
                kitchen.resume.set()
            case "wait" | "wait long" as wait:
                client.loop.advance(9 if "long" in wait else 4)
            case "hold":
                client.transport.taking = False
            case "take" if client.transport.unsent_bytes:
                client.transport.take(client.transport.unsent_bytes)
            case "shutdown" if not client.transport.closing:
                client.protocol.shutdown()
            case "leave":
                kitchen.resume.set()  # nobody waits for what will not come
                await client.leave()
        await client.settle()
    kitchen.resume.set()
    await client.settle()
    over = client.over
    await client.leave()
    heads = [(exchange.operation, list(exchange.headers)) for exchange in kitchen.exchanges]
    return heads, kitchen.ends, re.sub(rb"req_\w+", b"req_", client.received), over, client.state.total_requests


@pytest.mark.parametrize("service", sorted(SERVICES))
@pytest.mark.parametrize("seed", range(25))
async def test_nor_does_it_when_something_comes_between(
    service: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever serves it, early or late, whole, streamed or not at all."""
    pieces = _conversation(random.Random(seed))  # noqa: S311  # dice for a test
    known = await _lived(service, pieces, random.Random(seed))  # noqa: S311  # likewise
    monkeypatch.setattr(server, "_MOST_HEADS", 0)
    assert known == await _lived(service, pieces, random.Random(seed))  # noqa: S311  # likewise


@pytest.mark.parametrize("split", [False, True])
async def test_a_head_that_comes_again_is_not_parsed(split: bool) -> None:
    """In one read with its body or before it; what is read out of its fields is kept for the next one."""
    kitchen = Kitchen()
    client = MemoryConnection(protocol_class(kitchen, LIMITS), site)
    await client.send(HEADS[2] % 2 + b"{}")
    client.protocol.parser = None
    for body in (b"", b"123", b"x" * 1000):
        head = HEADS[2] % len(body)
        for piece in [head, body] if split else [head + body]:
            await client.send(piece)
    repeated = [exchange.headers for exchange in kitchen.exchanges[1:]]
    assert 3 == len({id(headers) for headers in repeated})
    assert all(isinstance(headers, RepeatedHeaders) for headers in repeated)
    assert 1 == len({id(headers.notes) for headers in repeated})
    assert [b"0", b"3", b"1000"] == [dict(headers)[b"content-length"] for headers in repeated]


async def test_heads_that_never_come_again_are_no_longer_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client with a trace in each head pays for a few looks, and then no more."""
    looks: list[bytes] = []
    of = KnownHead.of

    def look(data: bytes, *rest: Any) -> KnownHead | None:
        looks.append(data)
        return of(data, *rest)

    monkeypatch.setattr(KnownHead, "of", look)
    client = MemoryConnection(protocol_class(Kitchen(), LIMITS), site)
    for number in range(20):
        await client.send(START + b"traceparent: %d\r\ncontent-length: 2\r\n\r\n{}" % number)
    assert 20 == len(client.transport.written)
    assert server._MOST_HEADS == len(looks)


def test_only_the_digits_of_the_length_may_differ() -> None:
    """Everything else that stands there is the parser's to judge."""
    head = HEADS[0] % 12
    headers = [(b"host", b"h"), (b"authorization", b"Bearer k"), (b"content-length", b"12")]
    known = KnownHead.of(head, headers, Operation.CHAT)
    assert known is not None
    assert (len(head) + 1, b"123") == known.frame(HEADS[0] % 123)
    assert [*headers[:2], (b"content-length", b"123")] == known.headers(b"123")
    for length in (b"", b"+1", b"-1", b"1_0", b" 1", b"1 ", b"1\n", b"1" * 10, "\u0661".encode()):
        assert known.frame(HEADS[0].replace(b"%d", length)) is None
    assert [None] * len(head) == [known.frame(head[:end]) for end in range(len(head))]
