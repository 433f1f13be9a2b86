"""Time limits that move with every piece of an answer, at next to no cost for setting and moving them.

A timer of the event loop costs as much as reading a request's head, and a stream would move it twice a chunk. Here all
limits of a loop stand on one wheel, each in the slot of the moment in which it ends, and a single timer goes from slot
to slot. A limit that moves away only notes so: it is found too early, and put into its new slot once then.
"""

import asyncio
from types import TracebackType
from typing import Self

SLOT_S = 0.02
"""How late a limit may be noticed."""


class TimeLimits:
    """The limits of one event loop. Times are on its clock, which is ``now_s``; ``ticks`` while any stand on it."""

    __slots__ = ("_next", "_slots", "loop", "now_s", "ticks")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.now_s = loop.time
        self._slots: dict[int, set[TimeLimit]] = {}
        self._next = 0
        self.ticks = False

    def add(self, limit: "TimeLimit", due_s: float) -> int:
        """Puts it into the slot of ``due_s``, and answers which that is."""
        if not self.ticks:
            self._next = int(self.now_s() / SLOT_S)
            self.ticks = True
            self.loop.call_later(SLOT_S, self._tick)
        slot = max(int(due_s / SLOT_S) + 1, self._next)
        limits = self._slots.get(slot)
        if limits is None:
            self._slots[slot] = {limit}
        else:
            limits.add(limit)
        return slot

    def discard(self, limit: "TimeLimit", slot: int) -> None:
        """Takes it out of its slot, where it still is."""
        limits = self._slots.get(slot)
        if limits is not None:
            limits.discard(limit)
            if not limits:
                del self._slots[slot]

    def _tick(self) -> None:
        now_s = self.now_s()
        while self._next <= now_s / SLOT_S:
            due = self._slots.pop(self._next, ())
            self._next += 1
            for limit in due:
                limit.ring(now_s)
        self.ticks = bool(self._slots)
        if self.ticks:
            self.loop.call_later(SLOT_S, self._tick)


class TimeLimit:
    """Cancels the block that it guards when ``due_s`` has passed, and turns that cancellation into ``TimeoutError``."""

    __slots__ = ("_armed_s", "_cancelled_before", "_due_s", "_limits", "_slot", "_task", "expired")

    def __init__(self, limits: TimeLimits, due_s: float) -> None:
        self.expired = False
        self._limits = limits
        self._due_s = self._armed_s = due_s
        self._slot = 0
        self._task: asyncio.Task[object] | None = None
        self._cancelled_before = 0

    def move(self, due_s: float) -> None:
        """The block has until ``due_s`` from now on."""
        self._due_s = due_s
        if due_s < self._armed_s and self._task is not None and not self.expired:
            self._limits.discard(self, self._slot)
            self._arm()

    def ring(self, now_s: float) -> None:
        """Its slot has come, and maybe its end."""
        if self._task is None:
            return
        if now_s < self._due_s:
            self._arm()
        else:
            self.expired = True
            self._task.cancel()

    def __enter__(self) -> Self:
        self._task = asyncio.current_task(self._limits.loop)
        if self._task is None:
            raise RuntimeError("a time limit guards a task")
        self._cancelled_before = self._task.cancelling()
        self._arm()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limits.discard(self, self._slot)
        task, self._task = self._task, None
        # Who else has cancelled the task meanwhile is not to be kept from it.
        ours = self.expired and task is not None and task.uncancel() <= self._cancelled_before
        if ours and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    def _arm(self) -> None:
        self._armed_s = self._due_s
        self._slot = self._limits.add(self, self._due_s)
