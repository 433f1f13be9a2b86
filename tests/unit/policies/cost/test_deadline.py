"""What is lost if the answer comes too late."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.worth import Deadline
from policies.cost.deadline import Deadline as Late

Make = Callable[..., Any]


def _within(ctx: Any, **limits: float) -> Any:
    return replace(ctx, deadline=Deadline(**limits))


def test_without_a_deadline_nothing_is_late(make_context: Make, make_candidate: Make) -> None:
    """However long it takes."""
    assert 0.0 == Late().usd(make_context(), make_candidate(first_token_p50_s=1e6, first_token_p90_s=1e9))


@pytest.mark.parametrize(("limit_s", "missed"), [(1.0, 0.5), (3.0, 0.1), (1e9, 0.0), (1e-9, 1.0), (0.0, 1.0)])
def test_the_chance_comes_from_the_median_and_the_90th_percentile(
    make_context: Make, make_candidate: Make, limit_s: float, missed: float
) -> None:
    """Half are later than the median, one in ten later than the other."""
    ctx = _within(make_context(usd_per_success=1.0), first_token_s=limit_s)
    candidate = make_candidate(first_token_p50_s=1.0, first_token_p90_s=3.0)
    assert pytest.approx(missed, abs=1e-6) == Late(tolerated=0.0).usd(ctx, candidate)


def test_what_is_tolerated_costs_nothing_and_certainty_costs_a_success(
    make_context: Make, make_candidate: Make
) -> None:
    """At the 90th percentile nothing, with a tenth tolerated; far beyond it all."""
    ctx = make_context(usd_per_success=0.05)
    candidate = make_candidate(first_token_p50_s=1.0, first_token_p90_s=3.0)
    assert 0.0 == Late(tolerated=0.1).usd(_within(ctx, first_token_s=3.1), candidate)
    assert pytest.approx(0.05) == Late(tolerated=0.1).usd(_within(ctx, first_token_s=1e-6), candidate)


def test_the_whole_answer_is_written_at_the_present_speed(make_context: Make, make_candidate: Make) -> None:
    """1 s to the first token and 100 tokens at 0.02 s is 3 s at the median; the likelier miss counts."""
    ctx = make_context(p50=100, p90=300, usd_per_success=1.0)
    candidate = make_candidate(first_token_p50_s=1.0, first_token_p90_s=1.0, seconds_per_token=0.02)
    assert pytest.approx(0.5) == Late(tolerated=0.0).usd(_within(ctx, total_s=3.0), candidate)
    assert pytest.approx(0.1) == Late(tolerated=0.0).usd(_within(ctx, total_s=7.0), candidate)
    both = _within(ctx, total_s=3.0, first_token_s=100.0)
    assert pytest.approx(0.5) == Late(tolerated=0.0).usd(both, candidate)


def test_only_what_would_be_late_at_home_goes_to_a_paid_backend(make_context: Make, make_candidate: Make) -> None:
    """With three cents for a success, a tenth of a cent buys a place elsewhere from about one miss in eight on."""
    paid_usd = 0.004
    ctx = _within(make_context(usd_per_success=0.03), first_token_s=2.0)
    calm = make_candidate(first_token_p50_s=0.5, first_token_p90_s=1.5)
    busy = make_candidate(first_token_p50_s=1.5, first_token_p90_s=4.0)
    assert Late().usd(ctx, calm) < paid_usd < Late().usd(ctx, busy)


@pytest.mark.parametrize("tolerated", [-0.1, 1.0, float("nan")])
def test_a_share_that_is_none_is_refused(tolerated: float) -> None:
    """At construction."""
    with pytest.raises(ValueError, match="tolerated"):
        Late(tolerated=tolerated)
