"""A time limit that moves with every piece of an answer, at next to no cost for moving it."""

import asyncio
from types import TracebackType
from typing import Self


class TimeLimit:
    """Cancels the block that it guards when ``due_s`` has passed, and turns that cancellation into ``TimeoutError``.

    ``asyncio.timeout`` sets its timer anew with each ``reschedule``, which a stream would do twice a chunk. Here a
    limit that moves away only notes so: the timer finds out when it rings, and is set anew once then. Times are on the
    event loop's clock, which is ``now_s``.
    """

    __slots__ = ("_armed_s", "_cancelled_before", "_due_s", "_loop", "_task", "_timer", "expired", "now_s")

    def __init__(self, due_s: float) -> None:
        self.expired = False
        self._due_s = self._armed_s = due_s
        self._loop = asyncio.get_running_loop()
        self.now_s = self._loop.time
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._cancelled_before = 0

    def move(self, due_s: float) -> None:
        """The block has until ``due_s`` from now on."""
        self._due_s = due_s
        if due_s < self._armed_s and self._timer is not None:
            self._timer.cancel()
            self._arm()

    async def __aenter__(self) -> Self:
        self._task = asyncio.current_task(self._loop)
        if self._task is None:
            raise RuntimeError("a time limit guards a task")
        self._cancelled_before = self._task.cancelling()
        self._arm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Who else has cancelled the task meanwhile is not to be kept from it.
        ours = self.expired and self._task is not None and self._task.uncancel() <= self._cancelled_before
        if ours and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    def _arm(self) -> None:
        self._armed_s = self._due_s
        self._timer = self._loop.call_at(self._due_s, self._ring)

    def _ring(self) -> None:
        if self._loop.time() < self._due_s:
            self._arm()
        elif self._task is not None:
            self.expired = True
            self._timer = None
            self._task.cancel()
