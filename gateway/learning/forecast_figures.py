"""How good forecasts of answer lengths were: rank correlation, error, class, coverage, and the time they took."""

import math
import random
import statistics
from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence

from gateway.forecast import Forecast, LengthClass

_MOST_PAIRS = 1_000_000


def kendall_tau_b(pairs: Sequence[tuple[float, float]]) -> float | None:
    """The rank correlation of pairs, from -1 to 1, ties accounted for; ``None`` where all of one side are equal.

    Reference: Kendall, "The treatment of ties in ranking problems" (1945); sorted by merging, after Knight (1966).
    """
    ordered = sorted(pairs)
    count = len(ordered)
    total = count * (count - 1) // 2
    tied_first = _tied(first for first, _ in ordered)
    tied_both = _tied(iter(ordered))
    seconds = [second for _, second in ordered]
    swaps = _sorting_swaps(seconds)
    tied_second = _tied(iter(seconds))
    room = (total - tied_first) * (total - tied_second)
    return (total - tied_first - tied_second + tied_both - 2 * swaps) / math.sqrt(room) if room else None


def _tied(ordered: Iterator[object]) -> int:
    """How many pairs of neighbours and their neighbours are equal, in an ordered row."""
    tied, run, last = 0, 0, None
    for value in ordered:
        run = run + 1 if value == last else 0
        tied, last = tied + run, value
    return tied


def _sorting_swaps(values: list[float]) -> int:
    """Sorts ``values`` in place, and says how many pairs stood the wrong way round."""
    swaps, width, count = 0, 1, len(values)
    while width < count:
        merged: list[float] = []
        for start in range(0, count, 2 * width):
            left, middle, end = start, min(start + width, count), min(start + 2 * width, count)
            right = middle
            while left < middle and right < end:
                if values[right] < values[left]:
                    swaps += middle - left
                    merged.append(values[right])
                    right += 1
                else:
                    merged.append(values[left])
                    left += 1
            merged += values[left:middle]
            merged += values[right:end]
        values[:] = merged
        width *= 2
    return swaps


class RunningMedian:
    """The median of all that was seen; as large as there are different values."""

    def __init__(self) -> None:
        self._values: list[int] = []
        self._counts: dict[int, int] = {}
        self._place = self._below = self._seen = 0

    def add(self, value: int) -> None:
        """Takes one in."""
        self._seen += 1
        if value not in self._counts:
            self._counts[value] = 0
            place = bisect_left(self._values, value)
            insort(self._values, value)
            self._place += place <= self._place and self._seen > 1
        self._counts[value] += 1
        self._below += value < self._values[self._place]

    def median(self, otherwise: int) -> int:
        """The median; ``otherwise`` where nothing was seen."""
        if not self._seen:
            return otherwise
        middle = (self._seen - 1) // 2
        while self._below > middle:
            self._place -= 1
            self._below -= self._counts[self._values[self._place]]
        while self._below + self._counts[self._values[self._place]] <= middle:
            self._below += self._counts[self._values[self._place]]
            self._place += 1
        return self._values[self._place]


class _Pairs:
    """Forecasts and answers for the rank correlation: all up to a million, then a fair sample of that size."""

    def __init__(self) -> None:
        self._forecasts, self._answers = array("d"), array("d")
        self._seen = 0
        self._chance = random.Random(0)  # noqa: S311  # a sample, not a secret

    def add(self, forecast: float, answer: float) -> None:
        self._seen += 1
        if self._seen <= _MOST_PAIRS:
            self._forecasts.append(forecast)
            self._answers.append(answer)
        elif (place := self._chance.randrange(self._seen)) < _MOST_PAIRS:
            self._forecasts[place], self._answers[place] = forecast, answer

    def tau(self) -> float | None:
        return kendall_tau_b(list(zip(self._forecasts, self._answers, strict=True)))


class ForecastFigures:
    """Takes forecasts and what came, one by one, and makes the figures of them. Bounded in memory."""

    def __init__(self) -> None:
        self._all, self._first_turns = _Pairs(), _Pairs()
        self._rows = self._off = self._off_median = self._right_class = self._within_p50 = self._within_p90 = 0
        self._cpu_us = array("d")

    def add(self, forecast: Forecast, answer_tokens: int, *, first_turn: bool, median: int, cpu_us: float) -> None:
        """One answer: ``median`` is what the running median would have said, ``cpu_us`` what the forecast took."""
        expected = forecast.output_tokens_p50
        self._rows += 1
        self._all.add(expected, answer_tokens)
        if first_turn:
            self._first_turns.add(expected, answer_tokens)
        self._off += abs(expected - answer_tokens)
        self._off_median += abs(median - answer_tokens)
        self._right_class += forecast.length_class is LengthClass.of(answer_tokens)
        self._within_p50 += answer_tokens <= expected
        self._within_p90 += answer_tokens <= forecast.output_tokens_p90
        if len(self._cpu_us) < _MOST_PAIRS:
            self._cpu_us.append(cpu_us)

    def figures(self) -> Mapping[str, float | None]:
        """The figures of at least one row; a correlation is ``None`` where there is none."""
        return {
            "tau": self._all.tau(),
            "first_turn_tau": self._first_turns.tau(),
            "mae": self._off / self._rows,
            "median_mae": self._off_median / self._rows,
            "class_accuracy": self._right_class / self._rows,
            "p50_coverage": self._within_p50 / self._rows,
            "p90_coverage": self._within_p90 / self._rows,
            "cpu_us_p50": statistics.median(self._cpu_us),
            "cpu_us_p99": sorted(self._cpu_us)[-(-99 * len(self._cpu_us) // 100) - 1],
        }
