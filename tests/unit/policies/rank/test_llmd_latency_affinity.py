from collections.abc import Callable
from typing import Any

import pytest

from policies.rank.llmd_latency_affinity import LlmdLatencyAffinity

Make = Callable[..., Any]
NEVER = LlmdLatencyAffinity(exploration_share=0.0)


def test_a_warm_cache_keeps_its_requests_up_to_the_penalty(bills: Make, ranked: Make) -> None:
    """1000 tokens at 1000 a second: the first token in 4.2 s there against 1 s elsewhere is within five."""
    two = bills(a={"warm_tokens": 800, "wait_s": 4.0, "in_flight": 3}, b={"in_flight": 1})
    assert ["a", "b"] == ranked(NEVER, two)
    late = bills(a={"warm_tokens": 800, "wait_s": 6.0, "in_flight": 3}, b={"in_flight": 1})
    assert ["b", "a"] == ranked(NEVER, late)  # 6.2 s is 5.2 behind


def test_below_the_threshold_a_match_only_saves_its_reading(bills: Make, ranked: Make) -> None:
    """799 of 1000 make nobody sticky: 0.201 + 0.9 s against 1 s."""
    two = bills(a={"warm_tokens": 799, "wait_s": 0.9, "in_flight": 1}, b={"in_flight": 1})
    assert ["b", "a"] == ranked(NEVER, two)


def test_the_least_latency_comes_first_among_those_kept(bills: Make, ranked: Make) -> None:
    """0.8 of the time to the first token and 0.2 of the time per token, each on a scale of those kept.

    a: 0.8 x 0 + 0.2 x 1 = 0.2; b: 0.8 x 1 + 0.2 x 0 = 0.8; c: 0.8 x 0.5 + 0.2 x 0.5 = 0.5.
    """
    three = bills(
        a={"wait_s": 1.0, "seconds_per_token": 0.04, "in_flight": 1},
        b={"wait_s": 3.0, "seconds_per_token": 0.02, "in_flight": 1},
        c={"wait_s": 2.0, "seconds_per_token": 0.03, "in_flight": 1},
    )
    assert ["a", "c", "b"] == ranked(NEVER, three)
    assert ["b", "c", "a"] == ranked(LlmdLatencyAffinity(ttft_weight=0.1, tpot_weight=0.9), three)


def test_who_is_idle_comes_before_who_is_not(bills: Make, ranked: Make) -> None:
    """Even where it would read more slowly."""
    two = bills(a={"in_flight": 1, "prefill_tokens_per_s": 9000.0}, b={"prefill_tokens_per_s": 500.0})
    assert ["b", "a"] == ranked(NEVER, two)


def test_some_requests_explore(bills: Make, firsts: Make) -> None:
    """One in a hundred looks at all of them, so that others warm up too; the same one always does."""
    two = bills(a={"warm_tokens": 1000, "wait_s": 3.0, "in_flight": 9}, b={"in_flight": 1})
    explored = firsts(LlmdLatencyAffinity(exploration_share=0.1), two, 1000).count("b")
    assert 60 < explored < 140
    assert 0 == firsts(NEVER, two, 200).count("b")


@pytest.mark.parametrize(
    "parameter",
    [{"affinity_threshold": 2}, {"exploration_share": -0.1}, {"max_ttft_penalty_s": -1}, {"ttft_weight": -1}],
)
def test_a_parameter_out_of_its_range_is_named(parameter: dict[str, Any]) -> None:
    """In the words of the policy file."""
    with pytest.raises(ValueError, match=f"`{next(iter(parameter))}`"):
        LlmdLatencyAffinity(**parameter)
