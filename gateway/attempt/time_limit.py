"""Time limits that move with every piece of an answer, at next to no cost for setting and moving them.

A timer of the event loop costs as much as reading a request's head, and a stream would move it twice a chunk. Here all
limits of a loop are looked at together, fifty times a second, by a single timer. To set one is to put it into a set, to
move it is to write a number down; to look at a thousand takes some 15 us.
"""

import asyncio
from types import TracebackType
from typing import Self

from msgspec import Struct

TICK_S = 0.02
"""How late a limit may be noticed."""


class TimeLimits:
    """The limits of one event loop. Times are on its clock, which is ``now_s``; ``ticks`` while there are any."""

    __slots__ = ("_running", "loop", "now_s", "ticks")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.now_s = loop.time
        self.ticks = False
        self._running: set[TimeLimit] = set()

    def add(self, limit: "TimeLimit") -> None:
        """Looks at it from now on."""
        self._running.add(limit)
        if not self.ticks:
            self.ticks = True
            self.loop.call_later(TICK_S, self._tick)

    def discard(self, limit: "TimeLimit") -> None:
        """Looks at it no longer."""
        self._running.discard(limit)

    def _tick(self) -> None:
        now_s = self.now_s()
        for limit in [limit for limit in self._running if limit.due_s <= now_s]:
            self._running.discard(limit)
            limit.ring()
        self.ticks = bool(self._running)
        if self.ticks:
            self.loop.call_later(TICK_S, self._tick)


class TimeLimit(Struct, eq=False):
    """Cancels the block that it guards when ``due_s`` has passed, and turns that cancellation into ``TimeoutError``.

    ``due_s`` may be moved at any time, to later or sooner.
    """

    limits: TimeLimits
    due_s: float
    expired: bool = False
    _task: asyncio.Task[object] | None = None
    _cancelled_before: int = 0

    def ring(self) -> None:
        """Its end has come."""
        if self._task is not None:
            self.expired = True
            self._task.cancel()

    def __enter__(self) -> Self:
        self._task = asyncio.current_task(self.limits.loop)
        if self._task is None:
            raise RuntimeError("a time limit guards a task")
        self._cancelled_before = self._task.cancelling()
        self.limits.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.limits.discard(self)
        task, self._task = self._task, None
        # Who else has cancelled the task meanwhile is not to be kept from it.
        ours = self.expired and task is not None and task.uncancel() <= self._cancelled_before
        if ours and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error
