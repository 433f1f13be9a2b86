"""An HTTP/1.1 upstream on a loopback socket, written by hand so that it can also misbehave."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import pytest


@dataclass
class Received:
    """One request as the upstream got it."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> dict:
        """The body, parsed."""
        return msgspec.json.decode(self.body)


@dataclass
class Conversation:
    """The upstream's side of one connection. ``number`` counts the requests that came over it, from 1."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int = 0

    async def send(self, *pieces: bytes) -> None:
        """Sends pieces, each in a write of its own."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def answer(self, body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Sends a whole JSON answer."""
        given = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
        await self.send(head(status, given) + body)

    async def stream(self, *events: bytes, end: bool = True, kind: str = "text/event-stream") -> None:
        """Sends a chunked event stream, and its end unless there is more to come."""
        await self.send(head(200, {"content-type": kind, "transfer-encoding": "chunked"}))
        await self.send(*(chunk(event) for event in events))
        if end:
            await self.send(b"0\r\n\r\n")

    async def until_closed(self) -> None:
        """Returns when the other side has closed."""
        try:
            while await self.reader.read(4096):
                pass
        except ConnectionError:
            return

    def reset(self) -> None:
        """Breaks the connection without a farewell."""
        self.writer.transport.abort()


Respond = Callable[[Received, Conversation], Awaitable[None]]


@dataclass
class Upstream:
    """The server: what it received, how many connections it has seen and has open, how many requests are under way."""

    url: str
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    answering: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def until(self, condition: Callable[["Upstream"], bool]) -> None:
        """Returns as soon as the condition holds."""
        async with self._changed:
            await self._changed.wait_for(lambda: condition(self))

    async def note(self) -> None:
        """Wakes those who wait for a change."""
        async with self._changed:
            self._changed.notify_all()


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """A response head."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Words\r\n{lines}\r\n".encode("latin-1")


def chunk(data: bytes) -> bytes:
    """A piece in chunked coding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    try:
        block = await reader.readuntil(b"\r\n\r\n")
        first, *lines = block.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines if line)]
        body = await reader.readexactly(int(dict(headers).get("content-length", "0")))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return Received(method=method, path=path, headers=headers, body=body)


@asynccontextmanager
async def _serve(respond: Respond, tls: ssl.SSLContext | None = None) -> AsyncIterator[Upstream]:
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        upstream.connections += 1
        upstream.open_connections += 1
        conversation = Conversation(reader, writer)
        try:
            while request := await _read_request(reader):
                conversation.number += 1
                upstream.requests.append(request)
                await upstream.note()
                upstream.answering += 1
                try:
                    await respond(request, conversation)
                finally:
                    upstream.answering -= 1
                    await upstream.note()
        except (ConnectionError, asyncio.CancelledError):
            pass  # the other side left in the middle, or the test is over
        finally:
            writer.transport.abort()
            upstream.open_connections -= 1
            tasks.discard(task)
            await upstream.note()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    scheme = "https" if tls else "http"
    upstream = Upstream(url=f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    try:
        yield upstream
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture(scope="session")
def serve() -> Callable[..., AbstractAsyncContextManager[Upstream]]:
    """Serves a loopback upstream that answers as the given coroutine function does, over TLS where given."""
    return _serve
