"""What is lost if a task does not succeed."""

from typing import Any

import pytest

from gateway.success import Success as Chance
from policies.cost.risk import Risk
from policies.cost.success import Success


def _chance(p: float, *, calls: float = 1.0) -> Chance:
    return Chance(p=p, mean=p, low=p, high=p, n=10, calls=calls)


def test_a_failure_costs_what_a_success_is_worth(make_context: Any, make_candidate: Any) -> None:
    """Times how likely it is; divided among the requests of a task."""
    ctx = make_context(usd_per_success=2.0)
    assert 0.5 == pytest.approx(Success().usd(ctx, make_candidate(success=_chance(0.75))))
    assert 0.125 == pytest.approx(Success().usd(ctx, make_candidate(success=_chance(0.75, calls=4))))


def test_two_bills_show_the_marginal_dollars_per_additional_success(make_context: Any, make_candidate: Any) -> None:
    """The dearer one is cheaper in all exactly where what it costs more is below what its successes are worth."""
    ctx = make_context(usd_per_success=0.1)
    weak, strong = (make_candidate(success=_chance(p)) for p in (0.6, 0.9))
    saved = Success().usd(ctx, weak) - Success().usd(ctx, strong)
    assert 0.1 * 0.3 == pytest.approx(saved)


def test_an_attempt_that_fails_is_not_billed_twice(make_context: Any, make_candidate: Any) -> None:
    """Risk and success together are the whole chance not to succeed."""
    ctx = make_context(usd_per_success=1.0)
    candidate = make_candidate(success=_chance(0.8), failure_rate=0.25)
    assert 1 - 0.75 * 0.8 == pytest.approx(Risk().usd(ctx, candidate) + Success().usd(ctx, candidate))


def test_where_nothing_is_learned_nothing_is_billed(make_context: Any, make_candidate: Any) -> None:
    """In a replay of what was served without it."""
    assert 0.0 == Success().usd(make_context(), make_candidate())


def test_all_at_once_is_each_by_itself(make_context: Any, make_candidate: Any) -> None:
    """The same figures."""
    candidates = [make_candidate(success=_chance(p)) for p in (0.1, 0.5)] + [make_candidate()]
    ctx = make_context()
    assert [Success().usd(ctx, one) for one in candidates] == Success().usd_each(ctx, candidates)
