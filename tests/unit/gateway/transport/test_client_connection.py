"""One connection, over a transport that does what real ones rarely do."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.errors import UpstreamUnreachable
from gateway.transport.connection import Connection


class Transport(asyncio.Transport):
    """A transport of which the test says what becomes of each write: it is taken, held back, or fails."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__({"socket": sock})
        self.connection: Connection
        self.written: list[bytes] = []
        self.fate = "taken"
        self.closing = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See ``asyncio.WriteTransport``."""
        assert (0, 0) == (high, low)

    def write(self, data: Any) -> None:
        """See ``asyncio.WriteTransport``."""
        if self.fate == "fails":
            self.closing = True
            return
        self.written.append(bytes(data))
        if self.fate == "held back":
            self.connection.pause_writing()

    def is_closing(self) -> bool:
        """See ``asyncio.BaseTransport``."""
        return self.closing

    def abort(self) -> None:
        """See ``asyncio.WriteTransport``."""
        self.closing = True


@pytest.fixture
def transport() -> Iterator[Transport]:
    """A transport over a socket on which nothing comes."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Transport(ours)


@pytest.fixture
async def connection(transport: Transport) -> Connection:
    """A connection over it."""
    connection = transport.connection = Connection(on_lost=lambda _: None)
    connection.connection_made(transport)
    return connection


async def test_a_write_that_fails_reaches_nobody(connection: Connection, transport: Transport) -> None:
    """Where the kernel refuses the first bytes, the upstream has none of them."""
    transport.fate = "fails"
    connection.send(b"head", b"body")
    connection.connection_lost(BrokenPipeError())
    with pytest.raises(UpstreamUnreachable) as caught:
        await connection.head()
    assert connection.unheard
    assert isinstance(caught.value.__cause__, BrokenPipeError)


async def test_a_write_that_is_held_back_reaches_nobody_whole(connection: Connection, transport: Transport) -> None:
    """Until the transport has nothing left, the upstream cannot have all of it; from then on it may."""
    transport.fate = "held back"
    connection.send(b"head", b"body")
    assert connection.unheard
    transport.fate = "taken"
    connection.resume_writing()
    assert not connection.unheard


async def test_a_large_body_goes_out_in_slices(connection: Connection, transport: Transport) -> None:
    """Each as the one before has gone, in order and whole."""
    body = bytes(range(256)) * 4096
    transport.fate = "held back"
    connection.send(b"head", body)
    for taken in range(1, 6):
        assert taken == len(transport.written)
        assert connection.unheard
        connection.resume_writing()
    assert [b"head", body] == [transport.written[0], b"".join(transport.written[1:])]
    assert not connection.unheard


async def test_a_slice_that_fails_is_the_last(connection: Connection, transport: Transport) -> None:
    """After a failed write nothing more is written, and the upstream has not got it whole."""
    transport.fate = "held back"
    connection.send(b"head", b"x" * 2**20)
    transport.fate = "fails"
    connection.resume_writing()
    assert (1, True) == (len(transport.written), connection.unheard)


async def test_a_connection_that_was_lost_before_its_use(connection: Connection, transport: Transport) -> None:
    """It says so, instead of waiting for an answer that nobody sends."""
    connection.eof_received()
    connection.send(b"head", b"body")
    with pytest.raises(UpstreamUnreachable):
        await connection.head()
    assert ([], True, False) == (transport.written, connection.unheard, connection.finish())


async def test_what_comes_after_the_answer_ends_the_connection(connection: Connection, transport: Transport) -> None:
    """Even while the answer has not been taken; the answer itself stays whole."""
    connection.send(b"head", b"body")
    connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil")
    await connection.head()
    assert [b"ok", b""] == [await connection.piece(), await connection.piece()]
    assert (True, False) == (transport.closing, connection.finish())
