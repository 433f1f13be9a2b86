"""One connection to an upstream: a request out, its answer in, and nobody in between but the event loop.

``data_received`` hands a piece on at once where somebody takes them, else it appends and wakes the one who waits; no
task, no queue and at most one future stand between the socket and the reader. Neither side runs ahead of the other: a
body that nobody takes stops the reading, and a request's body goes out in slices as the kernel takes them.
"""

import asyncio
import select
from collections.abc import Callable
from typing import Any, cast

from gateway.ports import AT_ONCE
from gateway.transport.answer_reader import AnswerReader
from gateway.transport.first_step import Rest, Step, take_first_step

HIGH_WATER_BYTES = 64 * 1024
"""So much of a body may wait to be taken, and what one read brings beyond it; then reading stops."""

_JOINED_BYTES = 4 * 1024
"""To put a body of so many bytes behind its head costs less than to hand both over."""
_SLICE_BYTES = 256 * 1024


class Connection(asyncio.Protocol):
    """A connection, from ``connection_made`` to ``lost``; it serves one request at a time.

    Args:
        on_lost: called with the connection when it is gone.
    """

    __slots__ = (
        "__weakref__",
        "_asked",
        "_body_left",
        "_on_lost",
        "_open",
        "_poll",
        "_reading_paused",
        "_rest",
        "_taker",
        "_transport",
        "_waiter",
        "_waiting_bytes",
        "_write_failed",
        "_writing_paused",
        "answer",
        "keep_until_s",
        "loop",
        "lost",
    )

    def __init__(self, on_lost: "Callable[[Connection], None]") -> None:
        self.answer = AnswerReader()
        self.loop = asyncio.get_running_loop()  # asked for once: each time costs a system call
        self.lost: asyncio.Future[None] = self.loop.create_future()
        self.keep_until_s = 0.0
        self._on_lost = on_lost
        self._open = self._asked = False
        self._reading_paused = self._writing_paused = self._write_failed = False
        self._body_left: memoryview | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._taker: tuple[Callable[[bytes], Step], asyncio.Task[Any]] | None = None
        self._rest: Rest | None = None
        self._waiting_bytes = 0

    # ---- for the one who asks ---------------------------------------------------------------------------------------

    def send(self, head: bytes, body: bytes) -> None:
        """Begins a request; what the kernel does not take at once follows by itself."""
        self.answer.expect()
        if not self._open:  # it was closed before it was used
            self._write_failed = True
            self.answer.cut()
            return
        self._asked = True
        self._waiting_bytes = 0
        if len(body) <= _JOINED_BYTES:
            self._write(head + body)
        elif len(body) <= _SLICE_BYTES:
            self._write(head, body)
        else:
            self._body_left = memoryview(body)
            self._write(head)
            self._write_slices()

    async def head(self) -> None:
        """Returns when the head of the answer has come.

        Raises:
            UpstreamUnreachable: the connection broke.
            UpstreamInvalid: what came is no HTTP, or too long.
        """
        answer = self.answer
        while not answer.status:
            if answer.fault is not None:
                raise answer.fault
            await self.news()

    async def piece(self) -> bytes:
        """All of the body that has come and was not taken yet; empty at its end.

        Raises:
            UpstreamUnreachable: the connection broke, or what came is no HTTP.
        """
        answer = self.answer
        pieces = answer.pieces
        while not pieces:
            if answer.complete:
                return b""
            if answer.fault is not None:
                raise answer.fault
            await self.news()
        return self.taken()

    async def pour(self, take: Callable[[bytes], Step]) -> None:
        """Hands all of the body that was not taken yet to ``take`` as it comes, and returns at its end.

        It is called as soon as bytes are there, and wakes nobody as long as it need not wait.

        Raises:
            UpstreamUnreachable: the connection broke, or what came is no HTTP.
        """
        answer, task = self.answer, asyncio.current_task(self.loop)
        while True:
            if answer.pieces:
                await take(self.taken())
            elif answer.complete:
                return
            elif answer.fault is not None:
                raise answer.fault
            else:
                await self._hand_over(take, task)

    async def _hand_over(self, take: Callable[[bytes], Step], task: asyncio.Task[Any] | None) -> None:
        """Lets what comes be taken at once, until the task is needed."""
        self._taker = (take, task) if task is not None else None
        try:
            await self.news()
        except asyncio.CancelledError as error:
            if self._rest is None:
                raise
            await self._rest.after(error)
        else:
            if self._rest is not None:
                await self._rest
        finally:
            self._taker = self._rest = None

    @property
    def unheard(self) -> bool:
        """Whether the upstream cannot have begun with the request: it has not got all of it, and has said nothing.

        What the kernel has not taken, no upstream has seen. Of what it has taken nobody knows (RFC 9110, section 9.2.2:
        a POST may only be repeated where it is certain that the first was never applied).
        """
        return (self._write_failed or not self._all_taken) and not self.answer.begun

    def is_alive(self) -> bool:
        """Whether an idle connection can be used: nothing has come on it, neither bytes nor its end.

        The event loop may not have looked for a while, so the kernel is asked.
        """
        return self._open and not self._poll.poll(0)

    def finish(self) -> bool:
        """Ends the exchange and tells whether the connection can serve another; if not, it is closed, at once."""
        answer = self.answer
        clean = answer.complete and answer.keep_alive and self._all_taken and not self._reading_paused
        if not (clean and self._open):
            self.abort()
            return False
        self._asked = False
        answer.pieces.clear()
        return True

    def abort(self) -> None:
        """Closes the connection, at once; ``lost`` tells when it is gone."""
        self._open = False
        self._transport.abort()

    # ---- called by the event loop -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.Protocol``."""
        self._transport = cast("asyncio.Transport", transport)
        # Zero, so that a pause means "not all is with the kernel"; asyncio's TLS compares with >= where others do >.
        self._transport.set_write_buffer_limits(high=1 if transport.get_extra_info("ssl_object") else 0, low=0)
        self._poll = select.poll()
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self._open = True

    def data_received(self, data: bytes) -> None:
        """See ``asyncio.Protocol``."""
        answer = self.answer
        if not self._asked or answer.complete:
            self.abort()  # nobody has asked for this
            return
        news = answer.feed(data)
        if answer.fault is not None:
            self.abort()
        elif answer.pieces and self._taker is not None and asyncio.current_task(self.loop) is None:
            news = self._is_needed(*self._taker)
        elif answer.pieces:
            self._waiting_bytes += len(data)
            if self._waiting_bytes > HIGH_WATER_BYTES and not self._reading_paused and not answer.complete:
                self._reading_paused = True
                self._transport.pause_reading()
        if news:
            self._wake()

    def eof_received(self) -> None:
        """See ``asyncio.Protocol``: closes our side as well."""
        self._open = False
        self.answer.end()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """See ``asyncio.Protocol``."""
        self._open = False
        self.answer.cut(exc)
        self.answer.close()
        self._wake()
        self._on_lost(self)
        self.lost.set_result(None)

    def pause_writing(self) -> None:
        """See ``asyncio.Protocol``."""
        self._writing_paused = True

    def resume_writing(self) -> None:
        """See ``asyncio.Protocol``."""
        self._writing_paused = False
        self._write_slices()

    # ---- writing and taking -----------------------------------------------------------------------------------------

    @property
    def _all_taken(self) -> bool:
        return not self._writing_paused and self._body_left is None

    def _write_slices(self) -> None:
        while self._body_left is not None and not self._writing_paused and self._open:
            data, rest = self._body_left[:_SLICE_BYTES], self._body_left[_SLICE_BYTES:]
            self._body_left = rest or None
            self._write(data)

    def _write(self, *data: bytes | memoryview) -> None:
        self._transport.writelines(data)
        if self._transport.is_closing():  # the kernel took nothing of it
            self._open = False
            self._write_failed = True

    def taken(self) -> bytes:
        """All of the body that waits; there is room for more."""
        pieces = self.answer.pieces
        taken = b"".join(pieces)
        pieces.clear()
        self._waiting_bytes = 0
        if self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()
        return taken

    def _is_needed(self, take: Callable[[bytes], Step], task: asyncio.Task[Any]) -> bool:
        """Has what came taken, and tells whether its task has to go on: to wait for the client, or at the end."""
        pieces = self.answer.pieces
        taken = b"".join(pieces)
        pieces.clear()
        try:
            step = take(taken)
            self._rest = None if step is AT_ONCE else take_first_step(step, task, self.loop)
        except Exception as error:  # noqa: BLE001  # it is raised where the body is waited for
            self._taker = None
            self._break(error)
            return False
        if self._rest is not None:
            self._taker = None  # what comes now comes after that
            return True
        return self.answer.complete

    # ---- waiting ----------------------------------------------------------------------------------------------------

    def news(self) -> "asyncio.Future[None]":
        """To be awaited at once. A plain future: a coroutine around it would cost every piece of an answer."""
        if self._waiter is not None and not self._waiter.done():
            raise RuntimeError("an answer is read by one at a time")
        self._waiter = self.loop.create_future()
        return self._waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _break(self, error: Exception) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
