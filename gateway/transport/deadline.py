"""One deadline for a connection, moved as often as one likes: it costs a timer only when it has nearly come."""

import asyncio
import math
from collections.abc import Callable


class Deadline:
    """Calls ``overdue`` when the time that was last set has come.

    Most deadlines are replaced or cleared long before they come. So the timer is left as it is when the deadline
    moves away, and looks for the new one when it fires.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, overdue: Callable[[], None]) -> None:
        self._loop = loop
        self._overdue = overdue
        self._due_s = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._fires_s = math.inf

    def set(self, seconds: float) -> None:
        """Moves the deadline to ``seconds`` from now."""
        self._due_s = self._loop.time() + seconds
        if self._due_s < self._fires_s:
            self._start_timer()

    def clear(self) -> None:
        """There is no deadline now."""
        self._due_s = math.inf

    def cancel(self) -> None:
        """There is none, and the timer goes too."""
        self.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._fires_s = None, math.inf

    def end(self) -> None:
        """The connection is over: there is no deadline any more, and nothing here holds who was to be called."""
        self.cancel()
        self._overdue = _nobody

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fires_s = self._due_s
        self._timer = self._loop.call_at(self._fires_s, self._fire)

    def _fire(self) -> None:
        # A loop may fire a little early, by the resolution of its clock: what it fires for has come.
        fired_s = max(self._fires_s, self._loop.time())
        self._timer, self._fires_s = None, math.inf
        if fired_s >= self._due_s:
            self._due_s = math.inf
            self._overdue()
        elif self._due_s < math.inf:
            self._start_timer()


def _nobody() -> None:
    """In the place of who was to be called: a connection and its deadline would wait for the garbage collector."""
