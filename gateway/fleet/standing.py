"""All that is known of one model at one backend: its load and speeds, its cache, and its record of failures."""

from dataclasses import dataclass, field
from math import exp2, inf

from gateway.fleet.learned_window import LearnedWindow
from gateway.fleet.prefix import BackendCache
from gateway.fleet.progress import Expectations, Progress
from gateway.fleet.workload import Workload

_FORGET_HALF_LIFE_S = 30.0
"""An attempt weighs half as much after this time, so that a backend nobody tries becomes worth a try again."""

_GOOD_FAITH_ATTEMPTS = 20.0
"""Successes that are taken for granted: one failure out of nothing says little, and must not send all traffic away."""


@dataclass(slots=True)
class Standing:
    """What is under way, what its cache is believed to hold, and how the recent attempts ended.

    ``model`` is empty where the backend does not list it. ``has_failed`` tells whether an attempt ever did, ``probing``
    counts attempts under way that were sent to find out whether it is well again. ``warm_at_first_token`` tells that a
    prompt warms the cache no sooner.
    """

    model: str
    cache: BackendCache
    work: Workload = field(default_factory=Workload)
    warm_at_first_token: bool = False
    window: LearnedWindow = field(default_factory=LearnedWindow)
    progress: Progress = field(default_factory=lambda: Progress(Expectations()))
    failures_in_a_row: int = 0
    has_failed: bool = False
    probing: int = 0
    _attempts: float = field(default=0.0, repr=False)
    _failures: float = field(default=0.0, repr=False)
    _judged_s: float = field(default=0.0, repr=False)
    _row_grew_s: float = field(default=-inf, repr=False)

    def succeeded(self, now_s: float) -> None:
        """An attempt ended well, which ends the row of failures."""
        self._judged(0.0, now_s)
        self.failures_in_a_row = 0

    def failed(self, *, dispatched_s: float, now_s: float) -> bool:
        """An attempt failed; whether that makes the row longer.

        Attempts that were under way together fail together, of one cause: only one that was sent off after the last
        failure of the row says that the trouble goes on.
        """
        self._judged(1.0, now_s)
        self.has_failed = True
        if dispatched_s < self._row_grew_s:
            return False
        self._row_grew_s = now_s
        self.failures_in_a_row += 1
        return True

    def begin_anew(self, now_s: float) -> None:
        """The backend is another one than before: what was sent to the old one and fails yet says nothing of it."""
        self.failures_in_a_row = 0
        self._row_grew_s = now_s
        self.window = LearnedWindow()
        self.progress.begin_anew(now_s)

    def failure_rate(self, now_s: float) -> float:
        """The share of recent attempts that failed, 0 to 1, fading with time; a few successes are taken for granted."""
        fading = self._fading(now_s)
        return self._failures * fading / (self._attempts * fading + _GOOD_FAITH_ATTEMPTS)

    def _judged(self, failed: float, now_s: float) -> None:
        fading = self._fading(now_s)
        self._judged_s = now_s
        self._attempts = self._attempts * fading + 1.0
        self._failures = self._failures * fading + failed

    def _fading(self, now_s: float) -> float:
        elapsed_s = now_s - self._judged_s
        # A clock that goes back must not make old failures weigh more than they did.
        return exp2(-elapsed_s / _FORGET_HALF_LIFE_S) if elapsed_s > 0 else 1.0
