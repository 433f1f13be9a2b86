"""The cheapest first, and equals in an order that favours nobody."""

import math
from collections import Counter
from collections.abc import Callable
from itertools import permutations
from typing import Any

from policies.rank.by_cost import ByCost

Make = Callable[..., Any]


def test_the_cheapest_comes_first_and_what_is_no_number_last(make_bill: Make, make_context: Make) -> None:
    """Whatever the order was before."""
    bills = (make_bill(math.nan, backend="odd"), make_bill(0.3, backend="dear"), make_bill(0.1, backend="cheap"))
    for shuffled in permutations(bills):
        ordered = ByCost().order(make_context(), shuffled)
        assert ["cheap", "dear", "odd"] == [bill.candidate.backend for bill in ordered]


def test_equals_keep_one_order_for_the_same_request(make_bill: Make, make_context: Make) -> None:
    """So that `explain` tells the truth."""
    bills = tuple(make_bill(0.1, backend=f"b{number}") for number in range(4))
    orders = {ByCost().order(make_context(), shuffled) for shuffled in permutations(bills)}
    assert 1 == len(orders)


def test_different_requests_spread_over_equals(make_bill: Make, make_context: Make, make_request: Make) -> None:
    """Idle replicas all cost the same: the first of the list must not get everything."""
    bills = tuple(make_bill(0.1, backend=f"b{number}") for number in range(4))
    firsts = Counter(
        ByCost().order(make_context(make_request("hi", request_id=f"req-{number}")), bills)[0].candidate.backend
        for number in range(400)
    )
    assert 4 == len(firsts)
    assert max(firsts.values()) < 140


def test_one_backend_with_two_models_is_two_candidates(make_bill: Make, make_context: Make) -> None:
    """Nothing is lost and nothing twice."""
    bills = (make_bill(0.1, model="small"), make_bill(0.1, model="large"))
    assert set(bills) == set(ByCost().order(make_context(), bills))
    assert () == ByCost().order(make_context(), ())
