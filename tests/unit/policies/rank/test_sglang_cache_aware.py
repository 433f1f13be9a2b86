from collections.abc import Callable
from typing import Any

import pytest

from policies.rank.sglang_cache_aware import SglangCacheAware

Make = Callable[..., Any]


def test_the_longest_match_comes_first_while_loads_are_balanced(bills: Make, ranked: Make) -> None:
    """Above 30 % of the prompt, and up to 64 requests more than elsewhere are balance."""
    three = bills(
        a={"warm_tokens": 301, "in_flight": 64}, b={"warm_tokens": 200}, c={"warm_tokens": 0, "in_flight": 10}
    )
    assert ["a", "b", "c"] == ranked(SglangCacheAware(), three)


def test_the_fewest_requests_come_first_when_they_are_not(bills: Make, ranked: Make) -> None:
    """More than 64 apart, and more than half as many again."""
    policy = SglangCacheAware()
    assert ["b", "a"] == ranked(policy, bills(a={"warm_tokens": 1000, "in_flight": 65}, b={}))
    assert ["a", "b"] == ranked(policy, bills(a={"warm_tokens": 1000, "in_flight": 265}, b={"in_flight": 200}))


def test_a_short_match_goes_to_the_smallest_tree(bills: Make, ranked: Make) -> None:
    """Which is where the fewest tokens were sent that it did not have."""
    policy, cold = SglangCacheAware(), bills(a={}, b={})
    first = ranked(policy, cold, request_id="1", prompt_tokens=1000)[0]
    second = ranked(policy, cold, request_id="2", prompt_tokens=400)[0]
    third = ranked(policy, cold, request_id="3", prompt_tokens=100)[0]
    fourth = ranked(policy, cold, request_id="4", prompt_tokens=100)[0]
    assert first != second  # 1000 there, nothing here
    assert second == third == fourth  # 400, then 500, against 1000
    warm = bills(**{second: {"warm_tokens": 10}, first: {"warm_tokens": 300}})
    assert second == ranked(policy, warm, request_id="5", prompt_tokens=1000)[0]  # 300 of 1000 is not above 30 %


def test_a_tree_stops_growing_where_the_router_evicts(bills: Make, firsts: Make) -> None:
    """Trees of one size share by lot."""
    policy = SglangCacheAware(max_tree_tokens=10)
    counts = firsts(policy, bills(a={}, b={}), 300, prompt_tokens=1000)
    assert 110 < counts.count("a") < 190


def test_asking_twice_about_a_request_lets_no_tree_grow(bills: Make, ranked: Make) -> None:
    """The same answer, as often as one asks."""
    policy, cold = SglangCacheAware(), bills(a={}, b={})
    assert 1 == len({tuple(ranked(policy, cold, request_id="1")) for _ in range(5)})
    assert [] == ranked(policy, ())


@pytest.mark.parametrize(
    "parameter",
    [
        {"cache_threshold": 1.1},
        {"balance_abs_threshold": -1},
        {"balance_rel_threshold": 0.5},
        {"max_tree_tokens": 0},
    ],
)
def test_a_parameter_out_of_its_range_is_named(parameter: dict[str, Any]) -> None:
    """In the words of the policy file."""
    with pytest.raises(ValueError, match=f"`{next(iter(parameter))}`"):
        SglangCacheAware(**parameter)
