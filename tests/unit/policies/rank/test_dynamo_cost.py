from collections.abc import Callable
from typing import Any

import pytest

from policies.rank.dynamo_cost import DynamoCost

Make = Callable[..., Any]


def test_tokens_to_read_and_to_hold_add_up(bills: Make, ranked: Make) -> None:
    """A prompt of 1000: 0 + 1000 - 800 + 900 = 1100 against 0 + 1000 - 0 + 0 = 1000 against 500 + 1000 - 900 + 0."""
    three = bills(
        a={"warm_tokens": 800, "held_tokens": 900},
        b={},
        c={"warm_tokens": 900, "queued_prefill_tokens": 500},
    )
    assert ["c", "b", "a"] == ranked(DynamoCost(), three)
    # With reading three times as dear: 1500 against 3000 against 1800.
    assert ["a", "c", "b"] == ranked(DynamoCost(prefill_load_scale=3), three)


def test_a_match_may_count_less_and_never_more_than_the_prompt(bills: Make, ranked: Make) -> None:
    """Half a credit for 800 of 1000 is 600 to read against 550 that wait elsewhere besides the prompt."""
    two = bills(a={"warm_tokens": 800, "queued_prefill_tokens": 900}, b={"queued_prefill_tokens": 400})
    assert ["a", "b"] == ranked(DynamoCost(), two)
    assert ["b", "a"] == ranked(DynamoCost(overlap_credit=0.5), two)
    beyond = bills(a={"warm_tokens": 5000, "held_tokens": 1001}, b={})
    assert ["b", "a"] == ranked(DynamoCost(), beyond)


def test_equals_share_the_requests(bills: Make, firsts: Make) -> None:
    """By lot."""
    counts = firsts(DynamoCost(), bills(a={}, b={}), 300)
    assert 110 < counts.count("a") < 190


@pytest.mark.parametrize("parameter", [{"prefill_load_scale": -1}, {"overlap_credit": 1.5}])
def test_a_parameter_out_of_its_range_is_named(parameter: dict[str, Any]) -> None:
    """In the words of the policy file."""
    with pytest.raises(ValueError, match=f"`{next(iter(parameter))}`"):
        DynamoCost(**parameter)
