"""A server's protocol without sockets: what a client sends is handed to it, what it answers is kept, time is turned."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from gateway.errors import HeadraceError
from gateway.wire.openai_errors import error_body

_QUIET_TURNS = 10
"""Turns of the loop in which a task gets as far as it can: no chain of wake-ups here is longer."""

_HIGH_WATER_BYTES = 64 * 1024
"""As transports have it."""

DATE = (b"date", b"Thu, 01 Jan 1970 00:00:00 GMT")


class TurnedLoop:
    """The running loop with a clock that a test turns: timers fire in ``advance``, and nowhere else."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.timers: list[asyncio.TimerHandle] = []
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        """Everything else is the loop's."""
        return getattr(self._loop, name)

    def time(self) -> float:
        """See ``AbstractEventLoop.time``."""
        return self.now_s

    def call_at(self, when: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        """See ``AbstractEventLoop.call_at``."""
        timer = asyncio.TimerHandle(when, callback, args, self._loop)
        self.timers.append(timer)
        return timer

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        """See ``AbstractEventLoop.call_later``."""
        return self.call_at(self.now_s + delay, callback, *args)

    def advance(self, seconds: float) -> None:
        """Lets time pass, and fires what is due, in its order."""
        end_s = self.now_s + seconds
        while due := [timer for timer in self.timers if not timer.cancelled() and timer.when() <= end_s]:
            timer = min(due, key=asyncio.TimerHandle.when)
            self.timers.remove(timer)
            self.now_s = max(self.now_s, timer.when())
            timer._run()
        self.now_s = end_s


@dataclass(eq=False)
class MemoryTransport(asyncio.Transport):
    """The transport of one connection. ``written`` has the writes one by one; ``reading`` is what was asked for.

    A client that is not ``taking`` leaves ``unsent_bytes``; while there are some, a close is not over.
    """

    written: list[bytes] = field(default_factory=list)
    reading: bool = True
    closing: bool = False
    aborted: bool = False
    wrote_eof: bool = False
    lost: bool = False
    taking: bool = True
    unsent_bytes: int = 0
    protocol: Any = None

    def __post_init__(self) -> None:
        super().__init__()

    def write(self, data: Any) -> None:
        """See ``WriteTransport``; after a close it goes nowhere."""
        assert not self.wrote_eof, "written after the end"
        if self.closing:
            return
        self.written.append(bytes(data))
        if not self.taking:
            self.unsent_bytes += len(data)
            if self.unsent_bytes > _HIGH_WATER_BYTES:
                self.protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        """See ``WriteTransport``."""
        return self.unsent_bytes

    def write_eof(self) -> None:
        """See ``WriteTransport``."""
        self.wrote_eof = True

    def can_write_eof(self) -> bool:
        """As TCP can."""
        return True

    def pause_reading(self) -> None:
        """See ``ReadTransport``."""
        self.reading = False

    def resume_reading(self) -> None:
        """See ``ReadTransport``."""
        self.reading = True

    def is_closing(self) -> bool:
        """See ``BaseTransport``."""
        return self.closing

    def close(self) -> None:
        """See ``BaseTransport``."""
        self.closing = True
        if not self.unsent_bytes:
            self._lose()

    def abort(self) -> None:
        """See ``WriteTransport``."""
        self.aborted = self.closing = True
        self.unsent_bytes = 0
        self._lose()

    def take(self, taken_bytes: int) -> None:
        """The client takes so much of what it has left unread; the protocol hears of it when that was all."""
        self.unsent_bytes -= taken_bytes
        if self.unsent_bytes:
            return
        self.protocol.resume_writing()
        if self.closing:
            self._lose()

    def _lose(self) -> None:
        if not self.lost:
            self.lost = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


class MemoryConnection:
    """A client's connection to a protocol class of uvicorn's kind."""

    def __init__(self, protocol_class: Any, app: Any = None) -> None:
        self.loop = TurnedLoop()
        self.state = ServerState()
        self.state.default_headers = [DATE]
        config = Config(
            app,
            http=protocol_class,
            ws="none",
            lifespan="off",
            interface="asgi3",
            proxy_headers=False,
            log_config=None,
            access_log=False,
        )
        self.protocol = protocol_class(config=config, server_state=self.state, app_state={}, _loop=self.loop)
        self.transport = MemoryTransport(protocol=self.protocol)
        self.protocol.connection_made(self.transport)
        self._unread: list[bytes] = []

    @property
    def received(self) -> bytes:
        """What the client got."""
        return b"".join(self.transport.written)

    @property
    def over(self) -> bool:
        """Whether the client will get nothing more."""
        return self.transport.closing or self.transport.wrote_eof

    async def send(self, *pieces: bytes) -> None:
        """Sends pieces, each in a read of its own; what is not read now waits until it is."""
        self._unread += pieces
        await self.settle()

    async def settle(self) -> None:
        """Returns when the server has done all that it can do now; it reads only when it has nothing else to do."""
        quiet = 0
        while quiet < _QUIET_TURNS or self._may_read():
            if quiet >= _QUIET_TURNS:
                self.protocol.data_received(self._unread.pop(0))
                quiet = 0
            quiet += 1
            await asyncio.sleep(0)

    def _may_read(self) -> bool:
        return bool(self._unread) and self.transport.reading and not self.transport.closing

    async def leave(self) -> None:
        """The client closes: all that was served for it comes to its end."""
        if not self.transport.closing:
            self.protocol.eof_received()
        self.transport.unsent_bytes = 0
        self.transport.close()
        await self.settle()
        if self.state.tasks:
            await asyncio.wait(tuple(self.state.tasks), timeout=10)


class Kitchen:
    """Serves exchanges in the pipeline's place, and keeps what became of them: one end for each.

    By itself it answers with the body, where ``slow`` not before ``resume`` is set; ``serve`` is what it does instead.
    """

    def __init__(self, serve: Callable[[Any], Any] | None = None, *, slow: bool = False) -> None:
        self.exchanges: list[Any] = []
        self.ends: list[str] = []
        self.resume = asyncio.Event()
        if not slow:
            self.resume.set()
        self._serve = serve or self._whole

    async def handle(self, exchange: Any) -> None:
        """See ``Pipeline.handle``."""
        self.exchanges.append(exchange)
        try:
            await self._serve(exchange)
            self.ends.append("served")
        except HeadraceError as error:
            self.ends.append(type(error).__name__)
            if not exchange.gone:
                await exchange.answer(error.http_status, (), error_body(error))
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            if not exchange.gone:
                raise

    async def _whole(self, exchange: Any) -> None:
        body = await exchange.body()
        await self.resume.wait()
        await exchange.answer(200, ((b"a", b"b"),), body)


async def streams(exchange: Any) -> None:
    """Serves three pieces, and an empty one."""
    await exchange.body()
    await exchange.open(200, ())
    for piece in (b"one", b"", b"two", b"three"):
        await exchange.write(piece)
    await exchange.close()


async def refuses(exchange: Any) -> None:
    """Serves an answer without a look at the body."""
    await exchange.answer(401, (), b"no")


async def site(scope: Any, receive: Any, send: Any) -> None:
    """An application whose answer is the end of the path."""
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": scope["path"][-4:].encode()})


def statuses(client: MemoryConnection) -> list[int]:
    """The status of each answer that the client got."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", client.received)]
