"""A body that is handed on as it comes, by the event loop's callback and not by the task that waits for its end."""

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.errors import ClientGone, UpstreamUnreachable
from gateway.transport.connection import Connection

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n"


class Transport(asyncio.Transport):
    """A transport that takes all, on which the test says what comes."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is no buffer."""

    def write(self, data: Any) -> None:
        """It is taken."""

    def is_closing(self) -> bool:
        """See ``asyncio.BaseTransport``."""
        return False

    def abort(self) -> None:
        """See ``asyncio.WriteTransport``."""


@dataclass
class Client:
    """Who the body goes to. ``behind`` is what it waits for before it takes more; nothing where it keeps up."""

    taken: list[bytes] = field(default_factory=list)
    tasks: list[asyncio.Task[Any] | None] = field(default_factory=list)
    behind: asyncio.Future[None] | None = None
    cancelled: int = 0

    async def take(self, piece: bytes) -> None:
        """Takes a piece."""
        self.taken.append(piece)
        self.tasks.append(asyncio.current_task())
        if piece == b"!":
            raise ClientGone("it left")
        if self.behind is not None:
            try:
                await self.behind
            except asyncio.CancelledError:
                self.cancelled += 1
                raise


@pytest.fixture
async def connection() -> AsyncIterator[Connection]:
    """A connection whose answer has begun."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Connection(on_lost=lambda _: None)
        connection.connection_made(Transport({"socket": ours}))
        connection.send(b"head", b"body")
        connection.data_received(HEAD)
        yield connection


async def comes(connection: Connection, *reads: bytes) -> list[int]:
    """Lets the loop read so much in one turn; how much had been taken after each, before any task went on."""
    counts: list[int] = []

    def read(data: bytes) -> None:
        connection.data_received(data)
        counts.append(len(connection.answer.pieces))

    for data in reads:
        asyncio.get_running_loop().call_soon(read, data)
    await asyncio.sleep(0)
    return counts


async def pouring(connection: Connection, client: Client) -> "asyncio.Task[None]":
    """The task that waits for the end of the body."""
    task = asyncio.create_task(connection.pour(client.take))
    await asyncio.sleep(0)
    return task


async def test_what_comes_is_taken_at_once_as_if_by_the_task(connection: Connection) -> None:
    """Nobody is woken for it but at the end."""
    client = Client()
    task = await pouring(connection, client)
    assert [0, 0, 0] == await comes(connection, b"ab", b"cd", b"ef")
    await task
    assert ([b"ab", b"cd", b"ef"], [task] * 3) == (client.taken, client.tasks)
    assert connection.finish()


async def test_what_came_before_is_taken_first(connection: Connection) -> None:
    """And an answer that has come whole is taken by the task alone."""
    client = Client()
    connection.data_received(b"abcdef")
    await connection.pour(client.take)
    assert [b"abcdef"] == client.taken


async def test_while_the_client_is_behind_what_comes_waits(connection: Connection) -> None:
    """In its order; the task goes on with the piece that the callback began with."""
    client = Client(behind=asyncio.get_running_loop().create_future())
    task = await pouring(connection, client)
    assert [0, 1, 2] == await comes(connection, b"a", b"b", b"c")
    await comes(connection, b"def")
    assert ([b"a"], False) == (client.taken, task.done())
    waited_for, client.behind = client.behind, None
    assert waited_for is not None
    waited_for.set_result(None)
    await task
    assert [b"a", b"bcdef"] == client.taken


async def test_what_goes_wrong_with_a_piece_is_raised_where_the_body_is_waited_for(connection: Connection) -> None:
    """What comes after it is not taken."""
    client = Client()
    task = await pouring(connection, client)
    assert [0, 1] == await comes(connection, b"!", b"b")
    with pytest.raises(ClientGone, match="it left"):
        await task
    assert [b"!"] == client.taken


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_who_is_cancelled_while_the_client_is_behind_is_cancelled_there(
    connection: Connection, turns: int
) -> None:
    """Also before its task has gone on."""
    client = Client(behind=asyncio.get_running_loop().create_future())
    task = await pouring(connection, client)
    asyncio.get_running_loop().call_soon(connection.data_received, b"a")
    if not turns:
        asyncio.get_running_loop().call_soon(task.cancel)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ([b"a"], 1) == (client.taken, client.cancelled)


async def test_who_is_cancelled_between_two_pieces_gets_no_more(connection: Connection) -> None:
    """And takes nothing any more."""
    client = Client()
    task = await pouring(connection, client)
    await comes(connection, b"a")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [1] == await comes(connection, b"b")
    assert [b"a"] == client.taken


async def test_a_body_that_breaks_off_says_so_after_its_last_piece(connection: Connection) -> None:
    """What came is taken."""
    client = Client()
    task = await pouring(connection, client)
    await comes(connection, b"a")
    connection.connection_lost(ConnectionResetError())
    with pytest.raises(UpstreamUnreachable):
        await task
    assert [b"a"] == client.taken
