"""Servers that misbehave on sockets of their own, the client that meets them, and both event loops to do it on."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import trustme
import uvloop

from gateway.ports import Origin
from gateway.transport.client import PooledConnections, open_connections

PATIENCE_S = 20.0


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every test runs on the loop that serves, and on the one that Python has."""
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.SelectorEventLoop}


@dataclass
class Socket:
    """The upstream's side of one connection, where HTTP is written by hand. ``number`` counts connections, from 1."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int

    async def head(self) -> bytes:
        """Reads the head of a request, and not its body."""
        return await self.reader.readuntil(b"\r\n\r\n")

    async def request(self) -> bytes:
        """Reads a whole request and gives its body."""
        head = (await self.head()).decode("latin-1")
        length = next(line[16:] for line in head.split("\r\n") if line.startswith("content-length: "))
        return await self.reader.readexactly(int(length))

    async def send(self, data: bytes) -> None:
        """Sends bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def until_closed(self) -> None:
        """Reads whatever comes, until the other side has closed."""
        try:
            while await self.reader.read(2**16):
                pass
        except ConnectionError:
            return

    def reset(self) -> None:
        """Breaks the connection: the other side gets a reset instead of an end."""
        no_farewell = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_farewell)
        self.writer.transport.abort()


@dataclass
class Listener:
    """A server: where it is, how many connections it has seen and has open."""

    port: int = 0
    seen: int = 0
    open: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def until(self, condition: Callable[["Listener"], bool]) -> None:
        """Returns as soon as the condition holds."""
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: condition(self))

    async def note(self) -> None:
        """Wakes those who wait for a change."""
        async with self._changed:
            self._changed.notify_all()


Serve = Callable[[Socket], Awaitable[None]]


@asynccontextmanager
async def _listen(serve: Serve, tls: ssl.SSLContext | None) -> AsyncIterator[Listener]:
    listener = Listener()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        listener.seen += 1
        listener.open += 1
        sock = Socket(reader, writer, listener.seen)
        try:
            await listener.note()
            await serve(sock)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the other side left in the middle, or the test is over
        finally:
            writer.transport.abort()
            listener.open -= 1
            tasks.discard(task)
            await listener.note()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Got:
    """A whole answer: its head, and the pieces that its body came in."""

    status: int
    headers: list[tuple[str, str]]
    pieces: list[bytes]

    @property
    def body(self) -> bytes:
        """The pieces as one."""
        return b"".join(self.pieces)


@pytest.fixture
def meet(origin: Callable[..., Origin]) -> Callable[..., Any]:
    """Starts a server that serves each connection as told, and a client to it; fields of its origin by name."""

    @asynccontextmanager
    async def met(
        serve: Serve, *, server_tls: ssl.SSLContext | None = None, at: str = "", **fields: Any
    ) -> AsyncIterator[tuple[PooledConnections, Listener]]:
        at = at or ("https://127.0.0.1" if server_tls else "http://127.0.0.1")
        async with _listen(serve, server_tls) as listener:
            connections = open_connections(origin(base_url=f"{at}:{listener.port}/v1", **fields))
            try:
                yield connections, listener
            finally:
                await connections.close()
            assert (0, 0) == (connections.open, connections.idle)
            await listener.until(lambda it: it.open == 0)

    return met


@pytest.fixture(scope="session")
def origin() -> Callable[..., Origin]:
    """An origin; what is not given is the usual."""

    def make(**fields: Any) -> Origin:
        usual = {"headers": {}, "connect_timeout_s": PATIENCE_S, "keep_alive_s": PATIENCE_S, "max_connections": 100}
        return Origin(**(usual | fields))

    return make


@pytest.fixture(scope="session")
def post() -> Callable[..., Awaitable[Got]]:
    """Posts and reads the answer to its end."""

    async def posted(connections: PooledConnections, body: bytes = b"{}", **headers: str) -> Got:
        async with asyncio.timeout(PATIENCE_S), connections.post("/chat/completions", body, headers=headers) as answer:
            got = Got(answer.status, list(answer.headers), [])
            while piece := await answer.piece():
                got.pieces.append(piece)
        return got

    return posted


@pytest.fixture(scope="session")
def say() -> Callable[..., Serve]:
    """Serves every request of a connection with the same bytes, in a write each; then closes it if told to."""

    def saying(*writes: bytes, close: bool = False) -> Serve:
        async def serve(sock: Socket) -> None:
            while await sock.request():
                for data in writes:
                    await sock.send(data)
                if close:
                    sock.writer.write_eof()
                    await sock.until_closed()
                    break

        return serve

    return saying


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """A certificate authority that nobody trusts, until a test does."""
    return trustme.CA()


@pytest.fixture
def authority_file(authority: trustme.CA, tmp_path: Any) -> str:
    """Its certificate, as a file."""
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    """What a server needs to be ``localhost`` and 127.0.0.1."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["h2", "http/1.1"])
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return context
