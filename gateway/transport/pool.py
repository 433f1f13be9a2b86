"""Connections to one upstream that are kept for the next request, and the limit to their number."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from gateway.errors import ConnectionsBusy, UpstreamTimeout, UpstreamUnreachable
from gateway.transport.connection import Connection
from gateway.transport.dial import reason


class Pool:
    """The connections to one upstream. Who has ``enter``ed may ``take`` or ``connect`` one, and must ``leave``.

    The connection that was used last is used next, so that surplus ones grow old and are closed.

    Args:
        dial: connects a connection, or raises ``OSError``.
        connect_timeout_s: for a connection, and for a place where ``max_connections`` are busy.
        keep_alive_s: an idle connection is closed after so long, or sooner where the upstream says that it closes it.
        max_connections: at most so many at once; who comes later waits in the order of coming.
    """

    def __init__(
        self,
        dial: Callable[[Connection], Awaitable[object]],
        *,
        connect_timeout_s: float,
        keep_alive_s: float,
        max_connections: int,
    ) -> None:
        self._dial = dial
        self._connect_timeout_s = connect_timeout_s
        self._keep_alive_s = keep_alive_s
        self._max_connections = max_connections
        self._entered = 0
        self._turns: deque[asyncio.Future[None]] = deque()
        self._open: set[Connection] = set()
        self._idle: deque[Connection] = deque()  # the one that was used last is at the right end
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def open(self) -> int:
        """How many connections there are."""
        return len(self._open)

    @property
    def idle(self) -> int:
        """How many of them wait for a request."""
        return len(self._idle)

    def enter_at_once(self) -> bool:
        """Takes a place if there is one now, and tells whether there was."""
        if self._closed or self._entered == self._max_connections:
            return False
        self._entered += 1
        return True

    async def enter(self) -> None:
        """Takes a place, as soon as there is one.

        Raises:
            ConnectionsBusy: there was none in time.
            UpstreamUnreachable: the pool is closed.
        """
        if self._closed:
            raise UpstreamUnreachable("the backend is closed")
        if self.enter_at_once():
            return
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await self._turn()
        except TimeoutError as error:
            raise ConnectionsBusy("all connections to the upstream are in use") from error

    def leave(self) -> None:
        """Gives the place to who waits longest."""
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():  # who gave up waiting is passed over
                turn.set_result(None)
                return
        self._entered -= 1

    def take(self) -> Connection | None:
        """The connection that was used last, or none if no idle one is alive."""
        while self._idle:
            connection = self._idle.pop()
            if connection.loop.time() < connection.keep_until_s and connection.is_alive():
                return connection
            connection.abort()
        return None

    async def connect(self) -> Connection:
        """A new connection.

        Raises:
            UpstreamUnreachable: there is none to be had, or the pool is closed.
            UpstreamTimeout: it took too long.
        """
        connection = Connection(self._on_lost)
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await self._dial(connection)
        except TimeoutError as error:
            raise UpstreamTimeout("the upstream took too long to connect") from error
        except OSError as error:
            raise UpstreamUnreachable(f"no connection to the upstream: {reason(error)}") from error
        if self._closed:
            connection.abort()
            raise UpstreamUnreachable("the backend is closed")
        if not connection.lost.done():
            self._open.add(connection)
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keeps the connection for the next request, or closes it at once where none can follow."""
        if not connection.finish():
            return
        keep_s = min(self._keep_alive_s, connection.answer.kept_s)
        connection.keep_until_s = connection.loop.time() + keep_s
        self._idle.append(connection)
        if self._sweep is None:
            self._look_again()

    async def close(self) -> None:
        """Closes all connections, also those in use, and returns when they are gone; idempotent."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._idle.clear()
        for connection in self._open:
            connection.abort()
        if self._open:
            await asyncio.wait([connection.lost for connection in self._open])

    async def _turn(self) -> None:
        """Returns with the place of somebody who left."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._turns:
                self._turns.remove(turn)
            elif not turn.cancelled():
                self.leave()  # the place came, and the cancellation right after it
            raise
        if self._closed:
            self.leave()
            raise UpstreamUnreachable("the backend is closed")

    def _look_again(self) -> None:
        self._sweep = asyncio.get_running_loop().call_at(self._idle[0].keep_until_s, self._on_sweep)

    def _on_sweep(self) -> None:
        """Closes what is too old even if nobody asks any more, and looks again as long as some are kept."""
        self._sweep = None
        now_s = asyncio.get_running_loop().time()
        while self._idle and self._idle[0].keep_until_s <= now_s:
            self._idle.popleft().abort()
        if self._idle:
            self._look_again()

    def _on_lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
