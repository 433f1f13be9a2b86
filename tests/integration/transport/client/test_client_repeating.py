"""When a request is sent a second time, and when never: an upstream executes it at most once."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import UpstreamUnreachable

Meet = Callable[..., Any]

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
LARGE = b"x" * 2**26
"""More than the kernel takes from us before the upstream reads."""


def _break_at(number: int, executed: list[int], *, said: bytes = b"", silent: asyncio.Event | None = None) -> Any:
    """Serves; at the second request of connection ``number`` it breaks, or ends its side and falls silent."""

    async def serve(sock: Any) -> None:
        executed.append(len(await sock.request()))
        await sock.send(OK)
        await sock.head()
        if sock.number != number:
            executed.append(len(await sock.reader.readexactly(len(LARGE))))
            await sock.send(OK)
            await sock.until_closed()
        elif silent is None:
            sock.reset()
        else:
            await sock.send(said)
            sock.writer.write_eof()
            sock.writer.transport.pause_reading()
            await silent.wait()

    return serve


@pytest.mark.parametrize("gently", [True, False])
async def test_a_request_that_did_not_get_out_is_sent_again(meet: Meet, post: Any, gently: bool) -> None:
    """A kept connection that ends while the request is still going out cannot have brought it whole: once more."""
    executed: list[int] = []
    silent = asyncio.Event() if gently else None
    async with meet(_break_at(1, executed, silent=silent)) as (connections, listener):
        await post(connections, b"1")
        assert b"ok" == (await post(connections, LARGE)).body
        assert (2, 1, 1) == (listener.seen, connections.open, connections.idle)
        if silent:
            silent.set()
    assert [1, len(LARGE)] == executed


async def test_it_is_sent_again_once(meet: Meet, post: Any) -> None:
    """The second try has a new connection, and is the last."""
    heads = 0

    async def serve(sock: Any) -> None:
        nonlocal heads
        if sock.number == 1:
            await sock.request()
            await sock.send(OK)
        await sock.head()
        heads += 1
        sock.reset()

    async with meet(serve) as (connections, listener):
        await post(connections)
        with pytest.raises(UpstreamUnreachable):
            await post(connections, LARGE)
        assert (2, 2) == (heads, listener.seen)


async def test_not_over_a_new_connection(meet: Meet, post: Any) -> None:
    """What breaks on a new connection is no matter of keeping it: it is told at once."""

    async def serve(sock: Any) -> None:
        await sock.head()
        sock.reset()

    async with meet(serve) as (connections, listener):
        with pytest.raises(UpstreamUnreachable, match="without an answer"):
            await post(connections, LARGE)
        assert 1 == listener.seen


async def test_not_when_all_of_it_is_out(meet: Meet, post: Any) -> None:
    """Once the upstream may have the whole request, nobody knows whether it has begun: it is not sent again."""
    executed = []

    async def serve(sock: Any) -> None:
        while body := await sock.request():
            executed.append(body)
            if len(executed) == 2:
                sock.reset()
            else:
                await sock.send(OK)

    async with meet(serve) as (connections, listener):
        await post(connections, b"1")
        with pytest.raises(UpstreamUnreachable, match="without an answer") as caught:
            await post(connections, b"2")
        assert ([b"1", b"2"], 1, True) == (executed, listener.seen, caught.value.retryable)


async def test_not_when_an_answer_had_begun(meet: Meet, post: Any) -> None:
    """A byte of an answer shows that the upstream has looked at the request, whole or not."""
    executed: list[int] = []
    silent = asyncio.Event()
    async with meet(_break_at(1, executed, said=b"HTTP/1.1 4", silent=silent)) as (connections, listener):
        await post(connections, b"1")
        with pytest.raises(UpstreamUnreachable):
            await post(connections, LARGE)
        assert (1, 0) == (listener.seen, connections.idle)
        silent.set()
    assert [1] == executed


@pytest.mark.parametrize("secure", [False, True])
async def test_a_large_request_goes_out_as_the_upstream_reads(
    meet: Meet, server_tls: Any, authority_file: str, post: Any, secure: bool
) -> None:
    """While the upstream does not read, no second copy of the body piles up; then all of it arrives."""
    body = bytes(range(256)) * 2**17
    bodies = []

    async def serve(sock: Any) -> None:
        sock.writer.transport.pause_reading()
        connected.set()
        await may_read.wait()
        sock.writer.transport.resume_reading()
        bodies.append(await sock.request())
        await sock.send(OK)
        await sock.until_closed()

    connected, may_read = asyncio.Event(), asyncio.Event()
    tls = {"server_tls": server_tls, "verify": authority_file} if secure else {}
    async with meet(serve, **tls) as (connections, _):
        call = asyncio.ensure_future(post(connections, body))
        await connected.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        (connection,) = connections._pool._open
        assert connection._writing_paused
        assert connection._transport.get_write_buffer_size() < 2**19
        may_read.set()
        assert b"ok" == (await call).body
        assert 1 == connections.idle
    assert [body] == bodies
