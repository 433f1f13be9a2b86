"""Answers that break off, are none, or bring more than was asked for."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import UpstreamInvalid, UpstreamUnreachable

Meet = Callable[..., Any]

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "came"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", b"half"),
        (CHUNKED + b"4\r\nhalf\r\n", b"half"),
        (CHUNKED + b"9\r\nhalf", b"half"),
        (CHUNKED + b"4\r\nhalf\r\n0\r\n", b"half"),
        (CHUNKED, b""),
    ],
)
async def test_an_answer_that_breaks_off(meet: Meet, say: Any, answer: bytes, came: bytes) -> None:
    """All that came is given, then the break is told; every time one asks."""
    async with meet(say(answer, close=True)) as (connections, listener):
        async with connections.post("/x", b"{}", headers={}) as given:
            got = b""
            while len(got) < len(came):
                got += await given.piece()
            for _ in range(2):
                with pytest.raises(UpstreamUnreachable, match="in the middle of the answer"):
                    await given.piece()
        assert (came, 0, 1) == (got, connections.idle, listener.seen)


async def test_an_answer_without_a_length_that_is_reset(meet: Meet) -> None:
    """A reset is no end, not even where only the end of the connection could be one."""

    async def serve(sock: Any) -> None:
        await sock.head()
        await sock.send(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await asked_again.wait()
        sock.reset()

    asked_again = asyncio.Event()
    async with meet(serve) as (connections, _), connections.post("/x", b"{}", headers={}) as answer:
        assert b"half" == await answer.piece()
        asked_again.set()
        with pytest.raises(UpstreamUnreachable):
            await answer.piece()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_no_answer(meet: Meet, post: Any, say: Any, answer: bytes) -> None:
    """A connection that closes before a whole head is told as that; the request is not sent again."""
    async with meet(say(answer, close=True) if answer else say(close=True)) as (connections, listener):
        with pytest.raises(UpstreamUnreachable, match="without an answer"):
            await post(connections)
        await listener.until(lambda it: it.open == 0)
        assert (1, 0) == (listener.seen, connections.open)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: a\x00b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 70_000,
        b"HTTP/1.1 200 OK\r\n" + b"x: 1\r\n" * 257 + b"\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\n" * 4000,
    ],
    ids=range(16),
)
async def test_what_is_no_http_or_too_much_of_it(meet: Meet, post: Any, say: Any, answer: bytes) -> None:
    """It is no answer, it is told in words that quote nothing of it, and the connection is closed."""
    async with meet(say(answer)) as (connections, listener):
        with pytest.raises(UpstreamInvalid, match="the upstream sent") as caught:
            await post(connections)
        await listener.until(lambda it: it.open == 0)
        assert (1, 0) == (listener.seen, connections.open)
    assert "aaa" not in str(caught.value)


@pytest.mark.parametrize(
    "framing",
    [b"oops\r\n", b"-1\r\n", b"FFFFFFFFFFFFFFFFF\r\n", b"1;" + b"x" * 600_000, b"0\r\nx: " + b"a" * 600_000],
    ids=range(5),
)
async def test_a_body_whose_framing_breaks(meet: Meet, say: Any, framing: bytes) -> None:
    """What came before is given; then the break is told, also where framing goes on and on without a byte of body."""
    async with (
        meet(say(CHUNKED + b"4\r\nhalf\r\n", framing)) as (connections, listener),
        connections.post("/x", b"{}", headers={}) as answer,
    ):
        assert b"half" == await answer.piece()
        with pytest.raises(UpstreamUnreachable, match="broke in its middle"):
            await answer.piece()
        await listener.until(lambda it: it.open == 0)
        assert 0 == connections.open


@pytest.mark.parametrize(
    "leftover", [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil", b"garbage", b"\x00"], ids=range(3)
)
@pytest.mark.parametrize("first", [OK, b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"])
async def test_bytes_after_an_answer_end_the_connection(
    meet: Meet, post: Any, say: Any, first: bytes, leftover: bytes
) -> None:
    """What nobody asked for is nobody's answer: the next request has a connection of its own."""
    async with meet(say(first + leftover)) as (connections, listener):
        for number in (1, 2):
            got = await post(connections)
            assert (200, b"ok", number) == (got.status, got.body, listener.seen)
            assert 0 == connections.idle
