from collections.abc import Callable
from typing import Any

import pytest

from policies.rank.epp_weighted import EppWeighted

Make = Callable[..., Any]


def test_scores_add_up_as_published(bills: Make, ranked: Make) -> None:
    """Queues of 0, 2 and 4; caches of 0, 50 and 100 %; matches of 0, 50 and 90 %.

    2 x 1 + 2 x 1 + 3 x 0 = 4 against 2 x .5 + 2 x .5 + 3 x .5 = 3.5 against 0 + 0 + 3 x .9 = 2.7.
    """
    three = bills(
        a={"waiting": 4, "held_tokens": 1000, "warm_tokens": 900},
        b={"waiting": 2, "held_tokens": 500, "warm_tokens": 500},
        c={"waiting": 0, "held_tokens": 0, "warm_tokens": 0},
    )
    assert ["c", "b", "a"] == ranked(EppWeighted(kv_cache_tokens=1000), three)
    # With twice the weight for the prefix: 4, 5 and 5.4.
    assert ["a", "b", "c"] == ranked(EppWeighted(kv_cache_tokens=1000, prefix_weight=6), three)


def test_equal_queues_count_as_short_ones_and_a_cache_is_never_more_than_full(bills: Make, ranked: Make) -> None:
    """Two of three matches with nothing else to tell them apart."""
    two = bills(a={"waiting": 7, "held_tokens": 5000}, b={"waiting": 7, "held_tokens": 9000, "warm_tokens": 1})
    assert ["b", "a"] == ranked(EppWeighted(kv_cache_tokens=1000), two)


def test_equals_share_the_requests(bills: Make, firsts: Make) -> None:
    """By lot; and of nobody there is no order."""
    counts = firsts(EppWeighted(), bills(a={}, b={}), 300)
    assert 110 < counts.count("a") < 190


@pytest.mark.parametrize("parameter", [{"queue_weight": -1}, {"prefix_weight": float("inf")}, {"kv_cache_tokens": 0}])
def test_a_parameter_out_of_its_range_is_named(parameter: dict[str, Any]) -> None:
    """In the words of the policy file."""
    with pytest.raises(ValueError, match=f"`{next(iter(parameter))}`"):
        EppWeighted(**parameter)
