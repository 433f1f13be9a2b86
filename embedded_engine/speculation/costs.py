"""What a step costs by its rows: measured at the start, corrected by every step since."""

import math
from collections.abc import Mapping

from embedded_engine.condition import SelfTest

__all__ = ["StepCosts", "estimated_costs"]

_MOST_ROWS = 512
_LEARNING_RATE = 0.02
_MOST_CORRECTION = math.log(2)
_OUTLIER = math.log(1.5)


class StepCosts:
    """C, up to a factor that does not matter: the seconds of a step of so many rows.

    A busy machine makes all steps slower alike, which changes no decision; that is one slowly moving average. Where
    steps of some size are off the curve beyond that, the curve is bent there: by one correction for each doubling of
    the rows, between which it is interpolated.

    Args:
        measured_s: Seconds by number of rows, at least for one row.
    """

    def __init__(self, measured_s: Mapping[int, float]) -> None:
        points = sorted(measured_s.items())
        self._curve = [_interpolated(points, rows) for rows in range(_MOST_ROWS + 1)]
        self._pace = 0.0
        self._corrections = [0.0] * (_MOST_ROWS.bit_length() + 1)

    def of(self, rows: int) -> float:
        """Seconds of a step with so many rows, on a quiet machine."""
        rows = min(max(rows, 1), _MOST_ROWS)
        return self._curve[rows] * math.exp(self._correction(rows))

    def measured(self, rows: int, seconds: float) -> None:
        """A step took so long."""
        rows = min(max(rows, 1), _MOST_ROWS)
        surprise = math.log(max(seconds, 1e-9) / self._curve[rows]) - self._pace
        self._pace += _LEARNING_RATE * _within(surprise - self._correction(rows), _OUTLIER)
        low, part = _place(rows)
        step = _LEARNING_RATE * _within(surprise - self._correction(rows), _OUTLIER)
        for index, weight in ((low, 1 - part), (low + 1, part)):
            self._corrections[index] = _within(self._corrections[index] + weight * step, _MOST_CORRECTION)

    def _correction(self, rows: int) -> float:
        low, part = _place(rows)
        return (1 - part) * self._corrections[low] + part * self._corrections[low + 1]


def estimated_costs(self_test: SelfTest) -> StepCosts:
    """From what a self-test measured: a step of one row, and one of many."""
    many_s = self_test.rows / self_test.prefill_tokens_per_s
    return StepCosts({1: self_test.decode_s_per_token, self_test.rows: many_s})


def _place(rows: int) -> tuple[int, float]:
    low = rows.bit_length() - 1
    return low, rows / (1 << low) - 1


def _within(value: float, most: float) -> float:
    return max(-most, min(most, value))


def _interpolated(points: list[tuple[int, float]], rows: int) -> float:
    """On the line between the neighbours, or on that of the last two; never less than one row costs."""
    if len(points) == 1:
        return points[0][1]
    later = next((i for i in range(1, len(points)) if points[i][0] >= rows), len(points) - 1)
    (x0, y0), (x1, y1) = points[later - 1], points[later]
    return max(points[0][1], y0 + (y1 - y0) * (rows - x0) / (x1 - x0))
