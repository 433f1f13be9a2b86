from collections.abc import Callable
from typing import Any

import pytest

from policies.rank.consistent_hash_bounded import ConsistentHashBounded

Make = Callable[..., Any]
PROMPTS = [f"Question {number}: why?" for number in range(300)]


def test_one_beginning_goes_to_one_place(bills: Make, ranked: Make) -> None:
    """Whoever asks, and whatever follows after the characters that count."""
    policy, four = ConsistentHashBounded(prefix_characters=10), bills(a={}, b={}, c={}, d={})
    orders = {tuple(ranked(policy, four, request_id=str(n), text=f"0123456789 and {n}")) for n in range(20)}
    assert 1 == len(orders)


def test_many_beginnings_spread(bills: Make, ranked: Make) -> None:
    """About evenly, thanks to the many places that each has on the ring."""
    policy, four = ConsistentHashBounded(), bills(a={}, b={}, c={}, d={})
    places = [ranked(policy, four, text=text)[0] for text in PROMPTS]
    assert all(45 < places.count(name) < 110 for name in "abcd")


def test_who_leaves_takes_nobody_else_along(bills: Make, ranked: Make) -> None:
    """Only what was at its place goes elsewhere: that is what the ring is for."""
    policy = ConsistentHashBounded()
    before = {text: ranked(policy, bills(a={}, b={}, c={}, d={}), text=text)[0] for text in PROMPTS}
    after = {text: ranked(policy, bills(a={}, b={}, c={}), text=text)[0] for text in PROMPTS}
    assert all(after[text] == place for text, place in before.items() if place != "d")


def test_a_place_that_has_too_much_to_do_is_passed_over(bills: Make, ranked: Make) -> None:
    """The bound is 1.25 times the mean: of 4 + 1 requests on two, each may have 3.125."""
    policy = ConsistentHashBounded()
    own, other = ranked(policy, bills(a={}, b={}), text="hello")
    assert own == ranked(policy, bills(**{own: {"in_flight": 2}, other: {"in_flight": 2}}), text="hello")[0]
    assert other == ranked(policy, bills(**{own: {"in_flight": 3}, other: {"in_flight": 1}}), text="hello")[0]
    assert own == ranked(policy, bills(**{own: {"in_flight": 1}, other: {"in_flight": 3}}), text="hello")[0]


def test_the_first_turn_of_the_user_counts(make_context: Make, make_request: Make, bills: Make) -> None:
    """A common system prompt does not; and a prompt of tokens begins with nothing."""
    from gateway.conversation import Message

    policy, four = ConsistentHashBounded(), bills(a={}, b={}, c={}, d={})

    def order(**fields: Any) -> list[str]:
        return [bill.candidate.backend for bill in policy.order(make_context(make_request(**fields)), four)]

    def chat(system: str) -> tuple[Message, ...]:
        return (Message(role="system", content=system), Message(role="user", content="hello"))

    assert order(messages=chat("Be kind.")) == order(messages=chat("Be brief.")) == order(prompt="hello")
    assert order(prompt=(1, 2)) == order(prompt=(3, 4))


@pytest.mark.parametrize("parameter", [{"mean_load_factor": 0.9}, {"replication": 0}, {"prefix_characters": -1}])
def test_a_parameter_out_of_its_range_is_named(parameter: dict[str, Any]) -> None:
    """In the words of the policy file."""
    with pytest.raises(ValueError, match=f"`{next(iter(parameter))}`"):
        ConsistentHashBounded(**parameter)
