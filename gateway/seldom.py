"""Complains about a lasting trouble now and then instead of once a request."""

import logging
import threading
from collections.abc import Callable
from time import monotonic

INTERVAL_S = 60.0


class _Pace:
    """Says yes at most once in ``interval_s``, and how many times it said no in between. Safe between threads."""

    def __init__(self, interval_s: float, now_s: Callable[[], float]) -> None:
        self._interval_s = interval_s
        self._now_s = now_s
        self._lock = threading.Lock()
        self._next_s: float | None = None
        self._held_back = 0

    def step(self) -> int | None:
        """How many were held back since the last yes, or ``None`` for no."""
        with self._lock:
            now_s = self._now_s()
            if self._next_s is not None and now_s < self._next_s:
                self._held_back += 1
                return None
            held_back, self._held_back = self._held_back, 0
            self._next_s = now_s + self._interval_s
            return held_back


class Seldom:
    """Logs an error at most once in ``interval_s`` seconds, and then how many like it were held back."""

    def __init__(
        self, logger: logging.Logger, *, interval_s: float = INTERVAL_S, now_s: Callable[[], float] = monotonic
    ) -> None:
        self._logger = logger
        self._pace = _Pace(interval_s, now_s)

    def __call__(self, message: str, *values: object) -> None:
        """Logs ``message % values``, or counts it."""
        held_back = self._pace.step()
        if held_back is None:
            return
        self._logger.error(message, *values)
        if held_back:
            self._logger.error("%d more like it were not logged", held_back)


class SeldomFilter(logging.Filter):
    """The same for a library's logger, whatever it says: one record in ``interval_s`` seconds."""

    def __init__(self, *, interval_s: float = INTERVAL_S, now_s: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._pace = _Pace(interval_s, now_s)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether ``record`` is logged."""
        del record
        return self._pace.step() is not None
