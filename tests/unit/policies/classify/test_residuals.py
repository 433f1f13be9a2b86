"""A sliding window of residuals and its quantiles."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.classify._kaplan_meier import quantiles
from policies.classify._residuals import Residuals, Spread

values = st.lists(st.floats(-3, 3), min_size=1, max_size=40)


@given(seen=values)
def test_without_cut_answers_the_quantiles_stand_at_the_conformal_ranks(seen: list[float]) -> None:
    """Rank ``ceil((n + 1) level)``, or the largest where there are too few."""
    residuals = Residuals()
    for value in seen:
        residuals.add(value, cut_short=False)
    ordered, count = sorted(seen), len(seen)
    expected = [ordered[min(ceil(level * (count + 1)), count) - 1] for level in (0.5, 0.9)]
    assert Spread(*expected) == residuals.spread
    assert [(value, False) for value in seen] == residuals.values()


def test_the_window_slides() -> None:
    """Of three thousand, the last 1,024 count."""
    residuals = Residuals()
    for number in range(3000):
        residuals.add((number * 7919 % 1000) / 1000, cut_short=number % 5 == 0)
    assert (1024, 3000) == (residuals.count, residuals.seen)


@pytest.mark.parametrize("step", [1.0, -1.0])
def test_two_dozen_on_one_side_drop_the_older_ones(step: float) -> None:
    """The world has changed: what came before says nothing any more."""
    residuals = Residuals()
    for number in range(500):
        residuals.add(number % 7 / 10, cut_short=False)
    for number in range(40):
        residuals.add(step + number % 7 / 10, cut_short=False)
    assert residuals.count <= 48
    assert abs(residuals.spread.p50 - step - 0.3) < 0.11


def test_a_steady_stream_is_not_taken_for_a_change() -> None:
    """A shuffled row of residuals keeps its window; chance empties one in some thousand answers."""
    residuals = Residuals()
    for number in range(1000):
        residuals.add((number * 7919 % 1009) / 1009, cut_short=False)
    assert 1000 == residuals.count


def test_an_answer_cut_short_is_a_lower_bound() -> None:
    """Half of 1 to 9 end at 5 or are cut there: the median is that of the whole ones that still could end."""
    observed = sorted(
        (value, value == 5.0 and number % 2 == 0) for number, value in enumerate([1.0, 3.0, 5.0, 5.0, 7.0, 9.0])
    )
    assert [5.0, 9.0] == quantiles(observed, (0.5, 0.9))
    assert [4.0] == quantiles([(4.0, True)], (0.9,))
