"""Posts requests to an upstream over kept HTTP/1.1 connections, plain or TLS: the upstream's end of the hot path.

Nothing goes up but what we put there: no redirects are followed, no cookies kept, no proxy asked, no netrc read.

**A request is executed at most once.** It is sent a second time, once, only when it went out over a kept connection
that broke before the kernel had taken all of the request and before a byte of an answer had come: an upstream that
cannot have the whole request cannot have begun with it. Once the kernel has taken all of it nobody can know, and the
failure is told: whether to try elsewhere is the failover loop's choice. So that this hardly ever happens, a connection
is kept for less time than servers keep theirs, and the kernel is asked whether it is alive before it is used.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from gateway.errors import UpstreamUnreachable
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

    __slots__ = ("_body", "_connection", "_head", "_pool", "headers", "status")

    def __init__(self, pool: Pool, head: bytes, body: bytes) -> None:
        self._pool = pool
        self._head = head
        self._body = body
        self._connection: Connection | None = None
        self.status = 0
        self.headers: Sequence[tuple[str, str]] = ()

    async def __aenter__(self) -> Self:
        pool = self._pool
        if not pool.enter_at_once():
            await pool.enter()
        try:
            kept = pool.take()
            if kept is None or not await self._is_answered(kept):
                await self._over(await pool.connect())
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(
        self, cls: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def piece(self) -> Coroutine[Any, Any, bytes]:
        """See ``UpstreamAnswer.piece``."""
        if self._connection is None:
            raise RuntimeError("the connection was given back; the answer can no longer be read")
        return self._connection.piece()

    def pour(self, take: Callable[[bytes], Coroutine[Any, Any, None]]) -> Coroutine[Any, Any, None]:
        """See ``UpstreamAnswer.pour``."""
        if self._connection is None:
            raise RuntimeError("the connection was given back; the answer can no longer be read")
        return self._connection.pour(take)

    async def _is_answered(self, kept: Connection) -> bool:
        """Whether the kept connection has brought an answer; if not, the upstream has not begun with the request."""
        try:
            await self._over(kept)
        except UpstreamUnreachable:
            if not kept.unheard:
                raise
            kept.abort()
            return False
        return True

    async def _over(self, connection: Connection) -> None:
        self._connection = connection
        connection.send(self._head, self._body)
        await connection.head()
        self.status, self.headers = connection.answer.status, connection.answer.headers

    def _leave(self) -> None:
        """Gives back the connection and the place; nothing here waits, so nothing can interrupt it."""
        if self._connection is not None:
            self._pool.give_back(self._connection)
            self._connection = None
        self._pool.leave()
