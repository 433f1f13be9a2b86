"""Quantiles of a million times in a few hundred numbers: counts in steps of a factor."""

from collections import Counter
from collections.abc import Iterable, Sequence

from gateway.stores.time_steps import seconds_of


class LogHistogram:
    """Times by their step."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: Counter[int | None] = Counter()

    @property
    def n(self) -> int:
        """How many times were counted."""
        return self._counts.total() - self._counts[None]

    def add(self, steps: Iterable[int | None]) -> None:
        """Counts the steps; ``None`` was not measured."""
        self._counts.update(steps)

    def include(self, other: "LogHistogram") -> None:
        """Counts what another has counted, too."""
        self._counts.update(other._counts)  # noqa: SLF001  # of this class

    def quantiles(self, shares: Sequence[float]) -> list[float] | None:
        """The times in seconds that so many lie below, in ascending order; ``None`` of nothing."""
        n = self.n
        if not n:
            return None
        found: list[float] = []
        wanted = sorted(shares)
        below = 0
        for step in sorted(step for step in self._counts if step is not None):
            below += self._counts[step]
            while len(found) < len(wanted) and below >= wanted[len(found)] * n:
                found.append(seconds_of(step))
        return found
