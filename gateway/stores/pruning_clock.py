"""By what time rows of the ledger are too old."""

from collections.abc import Callable
from time import monotonic


class PruningClock:
    """A time since the epoch that is never ahead of the newest row, and goes no faster than the monotonic clock.

    The wall clock alone must not decide what is deleted: one that jumps ahead for a moment would make all rows too old
    at once. A ledger that nothing was written to for a while keeps its rows for that much longer, until the next start.
    """

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._ahead_s: float | None = None

    @property
    def runs(self) -> bool:
        """Whether it was set."""
        return self._ahead_s is not None

    def set(self, unix_s: float) -> None:
        """It is ``unix_s`` now, as the newest row says that was there before us."""
        self._ahead_s = unix_s - self._now_s()

    def unix_s(self, newest_unix_s: float) -> float:
        """The time now; ``newest_unix_s`` is that of the newest row."""
        return newest_unix_s if self._ahead_s is None else min(newest_unix_s, self._ahead_s + self._now_s())
