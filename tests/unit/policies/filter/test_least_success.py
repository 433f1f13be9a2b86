"""Who succeeds too rarely is out, where that is shown."""

from typing import Any

import pytest

from gateway.success import Success
from policies.filter.least_success import LeastSuccess


def _known(low: float, high: float) -> Success:
    mean = (low + high) / 2
    return Success(p=mean, mean=mean, low=low, high=high, n=40)


@pytest.mark.parametrize(
    ("low", "high", "usual", "proven"),
    [(0.5, 0.7, True, True), (0.7, 0.95, False, True), (0.92, 0.99, False, False), (0.9, 0.9, False, False)],
)
def test_in_doubt_it_stays_unless_it_must_be_proven(
    make_context: Any, make_candidate: Any, low: float, high: float, usual: bool, proven: bool
) -> None:
    """The upper bound decides, or the lower one."""
    candidate = make_candidate(success=_known(low, high))
    ctx = make_context()
    assert usual is (LeastSuccess(rate=0.9).exclude(ctx, candidate) is not None)
    assert proven is (LeastSuccess(rate=0.9, proven=True).exclude(ctx, candidate) is not None)


def test_it_says_why(make_context: Any, make_candidate: Any) -> None:
    """With what is known and what is wanted."""
    reason = LeastSuccess(rate=0.9).exclude(make_context(), make_candidate(success=_known(0.5, 0.7)))
    assert "60.0% of tasks succeed (50.0% to 70.0%, 40 tasks), at least 90.0% are wanted" == reason


def test_who_is_not_known_stays(make_context: Any, make_candidate: Any) -> None:
    """Where nothing is learned, nobody is excluded for it."""
    assert LeastSuccess(rate=0.9, proven=True).exclude(make_context(), make_candidate()) is None


@pytest.mark.parametrize("rate", [0.0, 1.1, -1.0])
def test_a_rate_is_a_share(rate: float) -> None:
    """Above 0 and at most 1."""
    with pytest.raises(ValueError, match="`rate`"):
        LeastSuccess(rate=rate)
