"""Upstreams of a case, who reads their answers, and what must hold whatever they send."""

import asyncio
import socket
from typing import Any

from gateway.errors import UpstreamError
from gateway.transport.answer_reader import MAX_HEAD_BYTES
from gateway.transport.connection import HIGH_WATER_BYTES, Connection
from tests.fuzzing.case import READ_BYTES, Case, failures_of, flood

MOST_HELD_BYTES = HIGH_WATER_BYTES + READ_BYTES
_TURNS = 5


class _Wire(asyncio.Transport):
    """The transport of a connection to an upstream that the case plays."""

    def __init__(self, sock: socket.socket, connection: Connection) -> None:
        super().__init__({"socket": sock})
        self.connection = connection
        self.reading, self.closing, self.lost = True, False, False
        self.unread: list[bytes] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See ``asyncio.WriteTransport``."""

    def write(self, data: Any) -> None:
        """See ``asyncio.WriteTransport``."""

    def is_closing(self) -> bool:
        """See ``asyncio.BaseTransport``."""
        return self.closing

    def pause_reading(self) -> None:
        """See ``asyncio.ReadTransport``."""
        self.reading = False

    def resume_reading(self) -> None:
        """See ``asyncio.ReadTransport``."""
        self.reading = True

    def abort(self) -> None:
        """See ``asyncio.WriteTransport``."""
        self.lose(None)

    def lose(self, error: Exception | None) -> None:
        """The connection is gone, once."""
        self.closing = True
        if not self.lost:
            self.lost = True
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, error)

    async def _read(self, data: bytes) -> None:
        """As the event loop does it: from a callback that no task runs."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def read() -> None:
            try:
                self.connection.data_received(data)
            except Exception as error:  # noqa: BLE001  # it is raised where the case is played
                done.set_exception(error)
            else:
                done.set_result(None)

        loop.call_soon(read)
        await done

    async def deliver(self) -> None:
        """Hands over what was sent, as far as it is read."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)
            while self.unread and self.reading and not self.closing:
                await self._read(self.unread.pop(0))
                answer = self.connection.answer
                assert sum(map(len, answer.pieces)) <= MOST_HELD_BYTES, "too much is kept for who reads nothing"
                assert sum(len(n) + len(v) for n, v in answer.fields) <= MAX_HEAD_BYTES + READ_BYTES
                assert answer.fault is None or self.closing, "broken, and kept"
                for _ in range(_TURNS):
                    await asyncio.sleep(0)


async def ask(case: Case) -> list[object]:
    """Status, headers, body and end of each answer."""
    connection = Connection(lambda _: None)
    got: list[object] = []
    go = asyncio.Event()
    if case.service != "late":
        go.set()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire = _Wire(ours, connection)
        connection.connection_made(wire)
        reader = asyncio.create_task(_read(connection, got, go, requests=2 if case.service == "two" else 1))
        failures = await failures_of(_play_upstream(case, wire, reader, go))
    assert not failures, failures
    assert reader.done(), "the reader waits for ever"
    await reader
    assert connection.lost.done()
    return got


async def _read(connection: Connection, got: list[object], go: asyncio.Event, *, requests: int) -> None:
    for _ in range(requests):
        body = bytearray()

        async def take(piece: bytes, body: bytearray = body) -> None:
            body += piece

        try:
            connection.send(b"head", b"body")
            await connection.head()
            got += [connection.answer.status, list(connection.answer.headers)]
            await go.wait()
            await connection.pour(take)
        except UpstreamError as error:
            got += [bytes(body), type(error).__name__]
            connection.finish()
            return
        got += [bytes(body), "complete"]
        if not connection.finish():
            return


async def _play_upstream(case: Case, wire: _Wire, reader: "asyncio.Task[None]", go: asyncio.Event) -> None:
    await wire.deliver()
    for verb, argument in case.steps:
        if verb == "send" and argument:  # no event loop hands over nothing
            wire.unread.append(str(argument).encode("latin-1"))
        elif verb == "flood":
            wire.unread += flood(argument)
        elif verb == "go":
            go.set()
        elif verb == "eof" and not wire.closing and wire.reading:
            wire.connection.eof_received()
            wire.lose(None)
        elif verb == "lost" and not wire.closing:
            wire.lose(ConnectionResetError())
        await wire.deliver()
    go.set()
    await wire.deliver()
    wire.lose(None)
    await wire.deliver()
    await asyncio.wait([reader], timeout=1)
