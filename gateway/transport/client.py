"""Posts requests to an upstream over kept HTTP/1.1 connections, plain or TLS: the upstream's end of the hot path.

Nothing goes up but what we put there: no redirects are followed, no cookies kept, no proxy asked, no netrc read.

**A request is executed at most once.** It is sent a second time, once, only when it went out over a kept connection
that broke before the kernel had taken all of the request and before a byte of an answer had come: an upstream that
cannot have the whole request cannot have begun with it. Once the kernel has taken all of it nobody can know, and the
failure is told: whether to try elsewhere is the failover loop's choice. So that this hardly ever happens, a connection
is kept for less time than servers keep theirs, and the kernel is asked whether it is alive before it is used.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from gateway.errors import UpstreamInvalid, UpstreamUnreachable
from gateway.ports import Origin
from gateway.transport.address import Address
from gateway.transport.connection import Connection
from gateway.transport.dial import dial
from gateway.transport.pool import Pool
from gateway.transport.request_head import RequestHead
from gateway.transport.tls_context import client_context


def open_connections(origin: Origin) -> "PooledConnections":
    """The connections to ``origin``; the first is opened by the first request.

    Raises:
        ConfigurationError: the address, a header or a file that ``origin`` names is none.
    """
    address = Address.of(origin.base_url)
    return PooledConnections(
        RequestHead(address, origin.headers),
        Pool(
            partial(dial, address, client_context(origin) if address.tls else None),
            connect_timeout_s=origin.connect_timeout_s,
            keep_alive_s=origin.keep_alive_s,
            max_connections=origin.max_connections,
        ),
    )


class PooledConnections:
    """Implements ``gateway.ports.Connections``; made by ``open_connections``."""

    def __init__(self, request_head: RequestHead, pool: Pool) -> None:
        self._request_head = request_head
        self._pool = pool

    @property
    def open(self) -> int:
        """How many connections there are."""
        return self._pool.open

    @property
    def idle(self) -> int:
        """How many of them wait for a request."""
        return self._pool.idle

    def post(self, path: str, body: bytes, *, headers: Mapping[str, str]) -> "Exchange":
        """See ``Connections.post``."""
        return Exchange(self._pool, self._request_head.post(path, len(body), headers), body)

    async def close(self) -> None:
        """See ``Connections.close``: the calls under way fail."""
        await self._pool.close()


class Exchange:
    """One request, and what comes back: implements ``gateway.ports.UpstreamAnswer`` inside its block."""

    __slots__ = ("_answer", "_body", "_connection", "_head", "_pool", "status")

    def __init__(self, pool: Pool, head: bytes, body: bytes) -> None:
        self._pool = pool
        self._head = head
        self._body = body
        self._connection: Connection | None = None
        self.status = 0

    async def __aenter__(self) -> Self:
        pool = self._pool
        if not pool.enter_at_once():
            await pool.enter()
        try:
            kept = pool.take()
            connection = self._connection = kept if kept is not None else await pool.connect()
            connection.send(self._head, self._body)
            try:
                await connection.head()
            except UpstreamUnreachable:
                if connection is not kept or not kept.unheard:
                    raise
                kept.abort()
                connection = self._connection = await pool.connect()
                connection.send(self._head, self._body)
                await connection.head()
        except BaseException:
            self._leave()
            raise
        self._answer = connection.answer
        self.status = connection.answer.status
        return self

    async def __aexit__(
        self, cls: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """See ``UpstreamAnswer.headers``."""
        return self._answer.headers

    def header(self, name: str) -> str:
        """See ``UpstreamAnswer.header``."""
        return self._answer.header(name)

    def piece(self) -> Coroutine[Any, Any, bytes]:
        """See ``UpstreamAnswer.piece``."""
        return self._open().piece()

    def pour(self, take: Callable[[bytes], Awaitable[None]]) -> Coroutine[Any, Any, None]:
        """See ``UpstreamAnswer.pour``."""
        return self._open().pour(take)

    async def whole(self, most_bytes: int) -> bytes:
        """See ``UpstreamAnswer.whole``."""
        connection, answer = self._open(), self._answer
        taken: list[bytes] = []
        taken_bytes = 0
        while True:
            if answer.pieces:
                taken.append(connection.taken())
                taken_bytes += len(taken[-1])
                if taken_bytes > most_bytes:
                    raise UpstreamInvalid(f"the answer is longer than {most_bytes} bytes")
            elif answer.complete:
                return b"".join(taken)
            elif answer.fault is not None:
                raise answer.fault
            else:
                await connection.news()

    def _open(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("the connection was given back; the answer can no longer be read")
        return self._connection

    def _leave(self) -> None:
        """Gives back the connection and the place; nothing here waits, so nothing can interrupt it."""
        if self._connection is not None:
            self._pool.give_back(self._connection)
            self._connection = None
        self._pool.leave()
