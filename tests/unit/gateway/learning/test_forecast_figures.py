"""The figures of forecasts, against slow ways to the same."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.forecast import Forecast
from gateway.learning.forecast_figures import ForecastFigures, RunningMedian, kendall_tau_b

few = st.integers(0, 6)


def _slow_tau(pairs: list[tuple[float, float]]) -> float | None:
    def sign(one: float, other: float) -> int:
        return (one > other) - (one < other)

    both = [(sign(a, c), sign(b, d)) for place, (a, b) in enumerate(pairs) for c, d in pairs[:place]]
    room = math.sqrt(sum(x * x for x, _ in both) * sum(y * y for _, y in both))
    return sum(x * y for x, y in both) / room if room else None


@given(pairs=st.lists(st.tuples(few, few), max_size=40))
def test_the_rank_correlation_is_that_of_all_pairs(pairs: list[tuple[float, float]]) -> None:
    """Counted one by one; none where all of one side are equal."""
    expected = _slow_tau(pairs)
    assert (expected is None) == (kendall_tau_b(pairs) is None)
    assert expected is None or expected == pytest.approx(kendall_tau_b(pairs))


@given(values=st.lists(st.integers(0, 50), min_size=1, max_size=120))
def test_the_running_median_is_the_lower_median_of_all_so_far(values: list[int]) -> None:
    """After each of them; before the first, whatever is said."""
    running = RunningMedian()
    assert 7 == running.median(7)
    for count, value in enumerate(values, start=1):
        running.add(value)
        assert statistics.median_low(values[:count]) == running.median(7)


def test_the_figures_of_three_forecasts() -> None:
    """Reckoned by hand."""
    figures = ForecastFigures()
    for p50, p90, answer, first in ((100, 200, 150, True), (50, 60, 40, False), (300, 400, 900, True)):
        forecast = Forecast(prompt_tokens=1, output_tokens_p50=p50, output_tokens_p90=p90)
        figures.add(forecast, answer, first_turn=first, median=100, cpu_us=p50)
    found = figures.figures()
    assert {"tau": 1.0, "first_turn_tau": 1.0, "mae": 220.0, "median_mae": 910 / 3} == {
        key: found[key] for key in ("tau", "first_turn_tau", "mae", "median_mae")
    }
    assert (2 / 3, 1 / 3, 2 / 3) == (found["class_accuracy"], found["p50_coverage"], found["p90_coverage"])
    assert (100, 300) == (found["cpu_us_p50"], found["cpu_us_p99"])
