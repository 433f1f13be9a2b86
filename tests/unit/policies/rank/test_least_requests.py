from collections.abc import Callable
from typing import Any

from policies.rank.least_requests import LeastRequests

Make = Callable[..., Any]


def test_the_fewest_requests_come_first_whatever_they_weigh(bills: Make, ranked: Make) -> None:
    """One long prompt counts as one."""
    three = bills(a={"in_flight": 2}, b={"in_flight": 1, "queued_prefill_tokens": 90_000}, c={"in_flight": 3})
    assert ["b", "a", "c"] == ranked(LeastRequests(), three)


def test_equals_share_the_requests(bills: Make, firsts: Make) -> None:
    """By lot, which the request's id draws."""
    counts = firsts(LeastRequests(), bills(a={}, b={}, c={"in_flight": 1}), 400)
    assert 150 < counts.count("a") < 250
    assert 0 == counts.count("c")
