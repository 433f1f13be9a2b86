from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_engine.speculation.costs import StepCosts
from embedded_engine.speculation.length import best_lengths

CURVE = {1: 25.6, 2: 30.7, 4: 35.8, 8: 48.6, 16: 87.0}
CHANCES = st.lists(st.floats(0.01, 1), max_size=4).map(lambda row: sorted(row, reverse=True))


def _rate(chances: list[list[float]], lengths: tuple[int, ...], costs: StepCosts) -> float:
    tokens = len(chances) + sum(sum(row[:n]) for row, n in zip(chances, lengths, strict=True))
    return tokens / costs.of(len(chances) + sum(lengths))


@given(st.lists(CHANCES, min_size=1, max_size=3))
def test_no_other_lengths_bring_more_tokens_a_second(chances: list[list[float]]) -> None:
    """Of all that there are, where the best brings a twenty-fifth at least."""
    costs = StepCosts(CURVE)
    best = tuple(best_lengths(chances, costs, room_rows=99))
    every = product(*(range(len(row) + 1) for row in chances))
    rate, plain = _rate(chances, best, costs), _rate(chances, (0,) * len(chances), costs)
    most = max(_rate(chances, lengths, costs) for lengths in every)
    assert most == pytest.approx(rate) or (rate == plain and most <= 1.04 * plain * (1 + 1e-9))


def test_a_gain_that_is_smaller_than_estimates_are_good_is_left() -> None:
    """A token in thirty is none."""
    costs = StepCosts({1: 1.0, 2: 1.2})
    assert [0] == best_lengths([[0.24]], costs, room_rows=9)
    assert [1] == best_lengths([[0.26]], costs, room_rows=9)


def test_nothing_is_drafted_where_it_does_not_pay() -> None:
    """On kernels that compute row by row no draft is worth a row, however sure."""
    dear = StepCosts({1: 1.0, 16: 16.0})
    assert [0] == best_lengths([[0.99, 0.98, 0.97]], dear, room_rows=16)


def test_drafts_shrink_as_the_load_grows() -> None:
    """What is drafted for one caller is not for sixteen, where a row costs more than it brings."""
    chances = [0.7, 0.5, 0.35, 0.25]
    costs = StepCosts({1: 1.0, 4: 1.3, 16: 3.4, 64: 12.0, 128: 26.0})
    drafted = [sum(best_lengths([chances] * requests, costs, room_rows=999)) / requests for requests in (1, 8, 64)]
    assert drafted == sorted(drafted, reverse=True)
    assert 3 == drafted[0]
    assert drafted[2] < 1


def test_rows_are_bounded_and_go_to_the_surest() -> None:
    """Whoever they belong to."""
    assert [1, 2] == best_lengths([[0.5, 0.1], [0.9, 0.8]], StepCosts({1: 1.0}), room_rows=3)
    assert [0, 0] == best_lengths([[0.5], [0.9]], StepCosts({1: 1.0}), room_rows=0)


def test_nobody_decodes() -> None:
    """No request, no draft."""
    assert [] == best_lengths([], StepCosts(CURVE), room_rows=8)


def test_costs_lie_on_the_lines_between_what_was_measured() -> None:
    """And on the last one beyond."""
    costs = StepCosts({1: 10.0, 3: 14.0, 5: 24.0})
    assert [10, 12, 14, 19, 24, 34] == pytest.approx([costs.of(rows) for rows in (1, 2, 3, 4, 5, 7)])


def test_a_slower_machine_changes_no_decision() -> None:
    """Every step three times as slow: the ratios stay."""
    costs = StepCosts(CURVE)
    for _ in range(400):
        for rows, seconds in CURVE.items():
            costs.measured(rows, 3 * seconds)
    for rows, seconds in CURVE.items():
        assert seconds / CURVE[1] == pytest.approx(costs.of(rows) / costs.of(1), rel=0.02)


def test_steps_that_cost_more_than_was_measured_bend_the_curve() -> None:
    """Where they are, and not elsewhere."""
    costs = StepCosts(CURVE)
    for _ in range(1500):
        costs.measured(1, 25.6)
        costs.measured(8, 60.0)
        costs.measured(16, 87.0)
    assert 60.0 / 25.6 == pytest.approx(costs.of(8) / costs.of(1), rel=0.05)
    assert 87.0 / 25.6 == pytest.approx(costs.of(16) / costs.of(1), rel=0.05)


def test_one_step_that_took_for_ever_changes_little() -> None:
    """A process that was stopped for a while is no news about rows."""
    costs = StepCosts(CURVE)
    costs.measured(4, 1e6)
    costs.measured(4, 0.0)
    assert 35.8 / 25.6 == pytest.approx(costs.of(4) / costs.of(1), rel=0.02)
