"""An upstream's name, its addresses, and which of them is connected to."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from gateway.errors import UpstreamTimeout, UpstreamUnreachable
from gateway.transport import dial

Meet = Callable[..., Any]

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
NAME = "http://upstream.example"


@pytest.fixture
def resolve_to(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Makes the loop's resolver answer with loopback addresses and ports; gives the names it is asked for."""

    def answer(*results: tuple[str, int] | OSError) -> list[str]:
        asked: list[str] = []
        loop = asyncio.get_running_loop()
        resolve = loop.getaddrinfo

        async def getaddrinfo(host: str, port: int, **hints: Any) -> list[Any]:
            if host not in NAME:  # uvloop looks numbers up as well, though not in any directory
                return await resolve(host, port, **hints)
            asked.append(host)
            if isinstance(results[0], OSError):
                raise results[0]
            family = {False: socket.AF_INET, True: socket.AF_INET6}
            return [(family[":" in to], socket.SOCK_STREAM, 6, "", (to, at or port)) for to, at in results]

        monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
        return asked

    return answer


@contextmanager
def _deaf() -> Iterator[int]:
    """A port that takes no connection and refuses none: its queue is full."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = listening.getsockname()[1]
        for _ in range(2):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)  # noqa: FBT003  # the socket module's signature
            waiting.connect_ex(("127.0.0.1", port))
        yield port


async def test_a_name_is_resolved_for_each_connection(meet: Meet, post: Any, say: Any, resolve_to: Any) -> None:
    """And not for each request: an upstream that has moved is found as soon as a connection is opened."""
    asked = resolve_to(("127.0.0.1", 0))
    async with meet(say(OK), at=NAME) as (connections, _):
        for _ in range(3):
            await post(connections)
        assert ["upstream.example"] == asked
        connections._pool._idle[0].abort()
        await post(connections)
        assert ["upstream.example"] * 2 == asked


async def test_a_name_that_does_not_resolve(meet: Meet, post: Any, say: Any, resolve_to: Any) -> None:
    """It is told as that, and not named: it may be internal."""
    resolve_to(socket.gaierror(socket.EAI_NONAME, "upstream.example not known"))
    async with meet(say(OK), at=NAME) as (connections, _):
        with pytest.raises(UpstreamUnreachable, match="its name does not resolve") as caught:
            await post(connections)
    assert "example" not in caught.value.message


async def test_an_address_that_refuses_is_passed_over(
    meet: Meet, post: Any, say: Any, resolve_to: Any, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, without waiting for its turn to be over."""
    monkeypatch.setattr(dial, "_STAGGER_S", 3600.0)
    resolve_to(("127.0.0.1", unused_tcp_port), ("127.0.0.1", unused_tcp_port), ("127.0.0.1", 0))
    async with meet(say(OK), at=NAME) as (connections, _):
        assert b"ok" == (await post(connections)).body


async def test_an_address_that_is_silent_is_not_waited_for(
    meet: Meet, post: Any, say: Any, resolve_to: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next is tried beside it, the first to answer is taken, and no socket of the others is left."""
    monkeypatch.setattr(dial, "_STAGGER_S", 0.01)
    with _deaf() as deaf:
        resolve_to(("127.0.0.1", deaf), ("127.0.0.1", deaf), ("127.0.0.1", 0), ("127.0.0.1", deaf))
        async with meet(say(OK), at=NAME) as (connections, _):
            assert b"ok" == (await post(connections)).body
    assert {asyncio.current_task()} == asyncio.all_tasks()


async def test_addresses_that_all_fail(meet: Meet, post: Any, say: Any, resolve_to: Any, unused_tcp_port: int) -> None:
    """What is told is what went wrong at the first."""
    resolve_to(("127.0.0.1", unused_tcp_port), ("::1", unused_tcp_port))
    async with meet(say(OK), at=NAME) as (connections, _):
        with pytest.raises(UpstreamUnreachable, match="connection refused"):
            await post(connections)


async def test_addresses_that_are_all_silent(
    meet: Meet, post: Any, say: Any, resolve_to: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are given up after ``connect_timeout_s``, all of them."""
    monkeypatch.setattr(dial, "_STAGGER_S", 0.01)
    with _deaf() as deaf:
        resolve_to(*[("127.0.0.1", deaf)] * 3)
        async with meet(say(OK), at=NAME, connect_timeout_s=0.1) as (connections, _):
            with pytest.raises(UpstreamTimeout):
                await post(connections)
            await asyncio.sleep(0)
            assert {asyncio.current_task()} == asyncio.all_tasks()


async def test_families_take_turns(resolve_to: Any) -> None:
    """The resolver's order holds inside a family and for which family is first; then one of each."""
    resolve_to(("::1", 1), ("::2", 1), ("::3", 1), ("127.0.0.1", 1), ("127.0.0.2", 1))
    addresses = await dial._resolve("upstream.example", 1)
    assert ["::1", "127.0.0.1", "::2", "127.0.0.2", "::3"] == [where[0] for _, where in addresses]


async def test_cancelling_while_addresses_are_tried(
    meet: Meet, post: Any, say: Any, resolve_to: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever the caller leaves, no attempt goes on behind its back."""
    monkeypatch.setattr(dial, "_STAGGER_S", 0.0)
    with _deaf() as deaf:
        async with meet(say(OK), at=NAME, max_connections=1) as (connections, listener):
            resolve_to(("127.0.0.1", deaf), ("127.0.0.1", listener.port), ("127.0.0.1", deaf))
            finished, steps = False, 0
            while not finished:
                call = asyncio.ensure_future(post(connections))
                for _ in range(steps):
                    await asyncio.sleep(0)
                finished = call.done()
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
                if kept := connections._pool.take():
                    kept.abort()
                await listener.until(lambda it: it.open == 0)
                steps += 1
            assert steps > 5
