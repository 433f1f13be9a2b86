"""How far answers fall from what their features say: a window of residuals, and its conformal quantiles."""

from bisect import bisect_left, insort
from collections import deque

from msgspec import Struct

from policies.classify._kaplan_meier import quantiles

LEVELS = (0.5, 0.9)

_WINDOW = 1024
_LATEST = 24
_ONE_SIDED = 20
"""Of the latest 24 residuals, 20 on one side of the median come once in 650 windows by chance: a change."""
_LOOK_EVERY = 6
_FEW = 32


class Spread(Struct, frozen=True):
    """Residuals at the median and at the 90th percentile, in log space."""

    p50: float
    p90: float


class Residuals:
    """The last residuals, up to 1,024, as a sliding split-conformal calibration.

    With ``n`` of them the next one lies at or below the one of rank ``ceil((n + 1) level)`` with a probability of at
    least ``level``, as long as they are exchangeable. When the latest 24 lie to one side, they are not: the older ones
    are dropped, so that a model that was replaced behind its name is followed within two dozen answers.

    Reference: Vovk, Gammerman, Shafer, "Algorithmic learning in a random world" (2005), for the ranks.
    """

    __slots__ = ("_added", "_cut_short", "_latest", "_sorted", "seen", "spread")

    def __init__(self) -> None:
        self._latest: deque[tuple[float, bool]] = deque()
        self._sorted: list[tuple[float, bool]] = []
        self._added = self._cut_short = self.seen = 0
        self.spread = Spread(0.0, 0.0)

    @property
    def count(self) -> int:
        """Residuals in the window."""
        return len(self._sorted)

    def add(self, residual: float, *, cut_short: bool) -> None:
        """Takes one answer in; of one cut short, ``residual`` is a lower bound."""
        self.seen += 1
        if len(self._latest) == _WINDOW:
            self._drop_oldest()
        self._latest.append((residual, cut_short))
        self._cut_short += cut_short
        insort(self._sorted, (residual, cut_short))
        self._added += 1
        if self.count > 2 * _LATEST and not self.seen % _LOOK_EVERY:
            self._notice_change()
        if not self._cut_short or self._added * _FEW >= self.count:
            self._added = 0
            self.spread = self._reckoned()

    def values(self) -> list[tuple[float, bool]]:
        """The window in the order of time, for storage."""
        return list(self._latest)

    def _drop_oldest(self) -> None:
        oldest = self._latest.popleft()
        self._cut_short -= oldest[1]
        del self._sorted[bisect_left(self._sorted, oldest)]

    def _notice_change(self) -> None:
        median = self._sorted[self.count // 2][0]
        latest = [self._latest[-place][0] for place in range(1, _LATEST + 1)]
        above = sum(residual > median for residual in latest)
        if above >= _ONE_SIDED or above <= _LATEST - _ONE_SIDED:
            while self.count > _LATEST:
                self._drop_oldest()

    def _reckoned(self) -> Spread:
        count = self.count
        if self._cut_short:
            return Spread(*quantiles(self._sorted, [min(level * (count + 1) / count, 1.0) for level in LEVELS]))
        p50_place, p90_place = count // 2, min((9 * count + 8) // 10, count - 1)  # their ranks, less one
        return Spread(self._sorted[p50_place][0], self._sorted[p90_place][0])
