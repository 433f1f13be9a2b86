import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_engine.lane_costs import LaneCosts
from embedded_engine.speculation.costs import StepCosts


def _costs() -> LaneCosts:
    return LaneCosts(StepCosts({1: 1.0, 10: 1.9}), cell_s=0.01)


def test_a_call_costs_a_pass_and_attention() -> None:
    """Rows times cells; and no rows cost nothing."""
    costs = _costs()
    assert [0.0, 1.0, 2.9, 1.9 + 10 * 50 * 0.01] == pytest.approx(
        [costs.call_s(rows, cells) for rows, cells in [(0, 500), (1, 0), (10, 10), (10, 50)]]
    )


@given(st.floats(0, 20), st.integers(0, 20), st.integers(0, 300), st.integers(0, 40))
def test_as_many_rows_as_the_time_allows(budget_s: float, beside: int, cells: int, most: int) -> None:
    """One more would be too many."""
    costs = _costs()
    rows = costs.most_rows(budget_s, beside=beside, cells=cells, most=most)

    def added_s(count: int) -> float:
        return costs.call_s(beside + count, cells) - costs.call_s(beside, cells)

    assert 0 <= rows <= most
    assert added_s(rows) <= budget_s
    assert rows == most or added_s(rows + 1) > budget_s


def test_attention_is_no_reason_to_bend_the_curve() -> None:
    """A call in a full lane that takes as long as was foreseen teaches nothing new."""
    costs = _costs()
    for _ in range(200):
        costs.measured(1, 300, costs.call_s(1, 300))
        costs.measured(10, 300, costs.call_s(10, 300))
    assert 1.0 == pytest.approx(costs.call_s(1, 0))
    assert 1.9 == pytest.approx(costs.call_s(10, 0))
