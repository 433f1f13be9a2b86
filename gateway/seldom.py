"""Complains about a lasting trouble now and then instead of once a request."""

import logging
import threading
from collections.abc import Callable
from time import monotonic


class Seldom:
    """Logs an error at most once in ``interval_s`` seconds and says how many were held back. Safe between threads."""

    def __init__(
        self, logger: logging.Logger, *, interval_s: float = 60.0, now_s: Callable[[], float] = monotonic
    ) -> None:
        self._logger = logger
        self._interval_s = interval_s
        self._now_s = now_s
        self._lock = threading.Lock()
        self._next_s: float | None = None
        self._held_back = 0

    def __call__(self, message: str, *values: object) -> None:
        """Logs ``message % values``, or counts it."""
        with self._lock:
            now_s = self._now_s()
            if self._next_s is not None and now_s < self._next_s:
                self._held_back += 1
                return
            held_back, self._held_back = self._held_back, 0
            self._next_s = now_s + self._interval_s
        self._logger.error(message, *values)
        if held_back:
            self._logger.error("%d more like it were not logged", held_back)
