"""Which connections are opened, used again, and closed, and how many there may be."""

import asyncio
import gc
import os
import socket
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import ConnectionsBusy, UpstreamTimeout, UpstreamUnreachable
from gateway.transport.client import open_connections

Meet = Callable[..., Any]

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def test_connections_are_used_again(meet: Meet, post: Any, say: Any) -> None:
    """One after the other, all requests go over one connection."""
    async with meet(say(OK)) as (connections, listener):
        for _ in range(5):
            assert b"ok" == (await post(connections)).body
            assert (1, 1, 1) == (listener.seen, connections.open, connections.idle)


async def test_the_last_used_is_used_next(meet: Meet, post: Any) -> None:
    """Surplus connections stay unused, so that they grow old."""
    served = []

    async def serve(sock: Any) -> None:
        while await sock.request():
            served.append(sock.number)
            if len(served) == 3:
                all_there.set()
            await all_there.wait()
            await sock.send(OK)

    all_there = asyncio.Event()
    async with meet(serve) as (connections, listener):
        await asyncio.gather(*(post(connections) for _ in range(3)))
        for _ in range(5):
            await post(connections)
        assert (3, 3, 3) == (listener.seen, connections.open, connections.idle)
    assert {1, 2, 3} == set(served[:3])
    assert 1 == len(set(served[3:]))


async def test_old_connections_are_closed_by_themselves(meet: Meet, post: Any, say: Any) -> None:
    """An idle connection does not outlive ``keep_alive_s``, even if nobody asks any more."""
    async with meet(say(OK), keep_alive_s=0.01) as (connections, listener):
        await asyncio.gather(*(post(connections) for _ in range(3)))
        await listener.until(lambda it: it.open == 0)
        assert (0, 0) == (connections.open, connections.idle)


async def test_a_connection_that_is_over_leaves_nothing_for_the_garbage_collector(
    meet: Meet, post: Any, say: Any
) -> None:
    """The answer and its parser, which know each other, are freed with it."""
    gc.collect()
    gc.disable()
    try:
        async with meet(say(OK), keep_alive_s=0.01) as (connections, listener):
            await post(connections)
            answer = weakref.ref(connections._pool._idle[0].answer)
            await listener.until(lambda it: it.open == 0)
            await asyncio.sleep(0)
            assert answer() is None
    finally:
        gc.enable()


async def test_old_connections_are_not_used(meet: Meet, post: Any, say: Any) -> None:
    """A connection that is too old is not used, even if nobody has closed it yet."""
    async with meet(say(OK), keep_alive_s=100.0) as (connections, listener):
        for number in (1, 2, 3):
            await post(connections)
            assert (number, 1, 1) == (listener.seen, connections.open, connections.idle)
            connections._pool._idle[0].keep_until_s -= 100.0


@pytest.mark.parametrize(
    ("field", "kept_s"),
    [
        ("Keep-Alive: timeout=5", 4.0),
        ("keep-alive: max=100, Timeout = 5", 4.0),
        ("keep-alive: timeout=0", 0.0),
        ("keep-alive: timeout=600", 100.0),
        ("keep-alive: timeout=-1", 100.0),
        ("keep-alive: timeout=" + "9" * 40, 100.0),
        ("x-timeout: timeout=5", 100.0),
    ],
)
async def test_an_upstream_that_says_how_long_it_keeps_a_connection_is_believed(
    meet: Meet, post: Any, say: Any, field: str, kept_s: float
) -> None:
    """Less a fifth, and never for longer than ``keep_alive_s``; what is no such word changes nothing."""
    ok = OK.replace(b"content-length", field.encode() + b"\r\ncontent-length")
    async with meet(say(ok), keep_alive_s=100.0) as (connections, _):
        before_s = asyncio.get_running_loop().time()
        await post(connections)
        idle = connections._pool._idle
        keeps_s = idle[0].keep_until_s - before_s if idle else 0.0
        assert kept_s <= keeps_s < kept_s + 30


@pytest.mark.parametrize("farewell", [b"", b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n", b"\0"])
@pytest.mark.parametrize("seen_by_loop", [True, False])
async def test_an_idle_connection_on_which_anything_comes_is_dead(
    meet: Meet, post: Any, farewell: bytes, seen_by_loop: bool
) -> None:
    """Its end, an answer to nothing, a byte: noticed even if the event loop has not looked since it came."""
    socks = []

    async def serve(sock: Any) -> None:
        socks.append(sock)
        while await sock.request():
            await sock.send(OK)

    async with meet(serve) as (connections, listener):
        for number in (1, 2, 3):
            assert b"ok" == (await post(connections)).body
            assert (number, 1) == (listener.seen, connections.idle)
            with socket.socket(fileno=os.dup(socks[-1].writer.get_extra_info("socket").fileno())) as other:
                if farewell:
                    other.send(farewell)
                else:
                    other.shutdown(socket.SHUT_WR)
            if seen_by_loop:
                await listener.until(lambda it: it.open == 0)
                assert (0, 0) == (connections.open, connections.idle)


@pytest.mark.parametrize("places", [1, 2])
async def test_a_limit_to_their_number(meet: Meet, post: Any, places: int) -> None:
    """Who comes when all are busy waits in the order of coming; who gives up is passed over."""
    served: list[bytes] = []

    async def serve(sock: Any) -> None:
        while body := await sock.request():
            served.append(body)
            await asyncio.sleep(0)
            await sock.send(OK)

    async with meet(serve, max_connections=places) as (connections, listener):
        calls = [asyncio.ensure_future(post(connections, b"%d" % number)) for number in range(10)]
        await asyncio.sleep(0)
        calls[4].cancel()
        calls[9].cancel()
        results = await asyncio.gather(*calls, return_exceptions=True)
        # Of two requests on two connections, the loop may read the later one first.
        assert [b"%d" % number for number in (0, 1, 2, 3, 5, 6, 7, 8)] == (served if places == 1 else sorted(served))
        assert 8 == sum(not isinstance(result, BaseException) for result in results)
        assert (places, places) == (listener.seen, connections.idle)


async def test_no_place_in_time(meet: Meet, post: Any) -> None:
    """Who waits longer than ``connect_timeout_s`` is told that our connections are busy; the backend is not blamed."""

    async def serve(sock: Any) -> None:
        await sock.request()
        asked.set()
        await sock.until_closed()

    asked = asyncio.Event()
    async with meet(serve, max_connections=1, connect_timeout_s=0.25) as (connections, listener):
        first = asyncio.ensure_future(post(connections))
        await asked.wait()
        with pytest.raises(ConnectionsBusy) as caught:
            await post(connections)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert (1, False, True) == (listener.seen, caught.value.blames_backend, caught.value.retryable)


async def test_nobody_listens(origin: Any, post: Any, unused_tcp_port: int) -> None:
    """A refused connection is told as that, without its address, and its place is free again."""
    connections = open_connections(origin(base_url=f"http://127.0.0.1:{unused_tcp_port}", max_connections=1))
    for _ in range(3):
        with pytest.raises(UpstreamUnreachable, match="connection refused") as caught:
            await post(connections)
    assert ("127" in caught.value.message, connections.open) == (False, 0)
    await connections.close()


async def test_connecting_takes_too_long(meet: Meet, post: Any) -> None:
    """A server that takes the connection and never answers the handshake is given up after ``connect_timeout_s``."""

    async def serve(sock: Any) -> None:
        await sock.until_closed()

    async with meet(serve, at="https://127.0.0.1", connect_timeout_s=0.05, max_connections=1) as (connections, _):
        for _ in range(2):
            with pytest.raises(UpstreamTimeout, match="too long to connect"):
                await post(connections)


async def test_closing_ends_everything(meet: Meet, post: Any) -> None:
    """Calls under way fail, those that wait for a place too, and later ones; closing twice is no harm."""

    async def serve(sock: Any) -> None:
        await sock.request()
        asked.set()
        await sock.until_closed()

    asked = asyncio.Event()
    async with meet(serve, max_connections=1) as (connections, listener):
        calls = [asyncio.ensure_future(post(connections)) for _ in range(3)]
        await asked.wait()
        await asyncio.gather(connections.close(), connections.close())
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [UpstreamUnreachable] * 3 == [type(result) for result in results]
        with pytest.raises(UpstreamUnreachable, match="is closed"):
            await post(connections)
        assert 1 == listener.seen


async def test_closing_while_connecting(meet: Meet, post: Any, say: Any) -> None:
    """A connection that is being opened when the pool closes is closed as soon as it is there."""
    async with meet(say(OK)) as (connections, _):
        call = asyncio.ensure_future(post(connections))
        await asyncio.sleep(0)
        await connections.close()
        with pytest.raises(UpstreamUnreachable, match="is closed"):
            await call
        assert 0 == connections.open


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("kept", [False, True])
async def test_cancelling_at_any_moment_leaves_nothing_behind(
    meet: Meet, post: Any, server_tls: Any, authority_file: str, secure: bool, kept: bool
) -> None:
    """However far a call has come when it is cancelled, its connection is closed or whole, and its place is free."""
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"

    async def serve(sock: Any) -> None:
        while await sock.request():
            for data in (b"HTTP/1.1 100 Continue\r\n\r\n", head[:20], head[20:], b"2\r\nok\r\n", b"0\r\n", b"\r\n"):
                await sock.send(data)
                await asyncio.sleep(0)

    tls = {"server_tls": server_tls, "verify": authority_file} if secure else {}
    async with meet(serve, max_connections=1, **tls) as (connections, listener):
        finished, steps = False, 0
        while not finished:
            call = asyncio.ensure_future(post(connections))
            for _ in range(steps):
                await asyncio.sleep(0)
            finished = call.done()
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            if not kept:
                await _forget_idle(connections)
                await listener.until(lambda it: it.open == 0)
                assert 0 == connections.open
            else:
                assert b"ok" == (await post(connections)).body
                await listener.until(lambda it: it.open == 1)
                assert (1, 1) == (connections.open, connections.idle)
            steps += 1
    assert steps > 5


async def test_cancelling_a_handshake_closes_the_connection(meet: Meet, post: Any) -> None:
    """A server that never answers it sees the caller leave, however early."""
    async with meet(lambda sock: sock.until_closed(), at="https://127.0.0.1") as (connections, listener):
        steps = 0
        while listener.seen < 5:
            call = asyncio.ensure_future(post(connections))
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await listener.until(lambda it: it.open == 0)
            steps += 1


async def _forget_idle(connections: Any) -> None:
    if kept := connections._pool.take():
        kept.abort()


async def test_cancelling_closes_at_once(meet: Meet, post: Any) -> None:
    """While the upstream thinks, a caller that leaves closes the connection; cancelling again changes nothing."""

    async def serve(sock: Any) -> None:
        await sock.request()
        asked.set()
        await sock.until_closed()
        asked.clear()

    asked = asyncio.Event()
    async with meet(serve) as (connections, listener):
        for _ in range(5):
            call = asyncio.ensure_future(post(connections))
            await asked.wait()
            for _ in range(3):
                call.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await call
            await listener.until(lambda it: it.open == 0)
            assert (0, False) == (connections.open, asked.is_set())
