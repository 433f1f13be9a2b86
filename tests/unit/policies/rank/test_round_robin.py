from collections.abc import Callable
from typing import Any

from policies.rank.round_robin import RoundRobin

Make = Callable[..., Any]


def test_each_has_its_turn(bills: Make, firsts: Make) -> None:
    """By name, whatever the order in the file, and whatever they have to do."""
    three = bills(b={"in_flight": 50}, c={}, a={"warm_tokens": 1000})
    assert ["a", "b", "c", "a", "b", "c", "a"] == firsts(RoundRobin(), three, 7)


def test_the_others_follow_in_the_same_round(bills: Make, ranked: Make) -> None:
    """A request that fails goes on to the next one."""
    policy, three = RoundRobin(), bills(a={}, b={}, c={})
    assert ["a", "b", "c"] == ranked(policy, three, request_id="1")
    assert ["b", "c", "a"] == ranked(policy, three, request_id="2")


def test_asking_twice_about_a_request_takes_no_turn(bills: Make, ranked: Make) -> None:
    """A decision may be looked at without being changed."""
    policy, two = RoundRobin(), bills(a={}, b={})
    orders = [ranked(policy, two, request_id=request_id)[0] for request_id in ("1", "1", "2", "2", "3")]
    assert ["a", "a", "b", "b", "a"] == orders
    assert [] == ranked(policy, (), request_id="4")
