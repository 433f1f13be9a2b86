"""Quantiles of many numbers in little memory."""

import math
from collections.abc import Iterator, Mapping

_RATIO = 1.01
_LOG_RATIO = math.log(_RATIO)
_LEAST = 1e-6

RELATIVE_ERROR = (_RATIO - 1) / (_RATIO + 1)
"""How far a quantile may be off, by its own size: half a percent."""


def bin_of(value: float) -> int:
    """The bin of a positive number; everything up to a millionth is in the lowest one."""
    return math.ceil(math.log(max(value, _LEAST)) / _LOG_RATIO)


def value_of(bin_: int) -> float:
    """What stands for all numbers of a bin: no further than ``RELATIVE_ERROR`` from any of them."""
    return 2 * _RATIO**bin_ / (_RATIO + 1)


class Sketch:
    """A histogram whose bins grow by one percent each (DDSketch, Masson et al., VLDB 2019).

    A few hundred bins hold everything from a millisecond to an hour, however many numbers go in.
    """

    __slots__ = ("bins", "count", "total")

    def __init__(self) -> None:
        self.bins: dict[int, int] = {}
        self.count = 0
        self.total = 0.0

    def add(self, value: float) -> None:
        """Takes one number."""
        bin_ = bin_of(value)
        self.bins[bin_] = self.bins.get(bin_, 0) + 1
        self.count += 1
        self.total += value

    def merge(self, other: "Sketch") -> None:
        """Takes all that ``other`` has."""
        for bin_, count in other.bins.items():
            self.bins[bin_] = self.bins.get(bin_, 0) + count
        self.count += other.count
        self.total += other.total

    def mean(self) -> float:
        """Exact; 0 where there is nothing."""
        return self.total / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """The number that ``share`` of all are below, 0 to 1; 0 where there is nothing."""
        rank = share * (self.count - 1)
        for bin_, below in _cumulated(self.bins):
            if below > rank:
                return value_of(bin_)
        return 0.0


def _cumulated(bins: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    below = 0
    for bin_ in sorted(bins):
        below += bins[bin_]
        yield bin_, below
