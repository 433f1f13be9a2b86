"""What is lost with a warm cache that is left behind."""

from collections.abc import Callable
from typing import Any

import pytest

from policies.cost.leaving import Leaving

Make = Callable[..., Any]


def test_leaving_costs_what_must_be_read_again_if_it_comes_back(make_context: Make, make_candidate: Make) -> None:
    """3,000 tokens at 1,000 a second, at 0.001 US dollars a second, one time in five; and their price."""
    ctx, candidate = make_context(usd_per_second=0.001), make_candidate(warm_tokens=500, warm_elsewhere_tokens=3500)
    assert pytest.approx(0.0006) == Leaving().usd(ctx, candidate)
    assert pytest.approx(0.0012) == Leaving(usd_per_mtok=1.0).usd(ctx, candidate)


@pytest.mark.parametrize("warm_tokens", [3500, 4000])
def test_who_is_the_warmest_leaves_nothing(make_context: Make, make_candidate: Make, warm_tokens: int) -> None:
    """Nor does one that is as warm."""
    candidate = make_candidate(warm_tokens=warm_tokens, warm_elsewhere_tokens=3500)
    assert 0.0 == Leaving().usd(make_context(), candidate)


def test_nobody_stays_at_any_price(make_context: Make, make_candidate: Make) -> None:
    """A million tokens at a token a second are not worth a day of waiting."""
    candidate = make_candidate(warm_elsewhere_tokens=10**6, prefill_tokens_per_s=1.0)
    assert pytest.approx(0.002) == Leaving().usd(make_context(usd_per_second=1.0), candidate)


@pytest.mark.parametrize("wrong", [{"chance": 1.1}, {"usd_per_mtok": -1.0}, {"most_usd": float("inf")}])
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    """At construction, by name."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Leaving(**wrong)
