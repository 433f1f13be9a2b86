"""The cheapest first, and equals in an order that favours nobody."""

import math
from collections import Counter
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("in_flight", "extra_usd", "first"),
    [
        (6, 0.02, "warm"),
        (7, 0.02, "idle"),
        (7, 0.04, "warm"),
    ],
    ids=["at the bound", "piled up", "too dear to leave"],
)
def test_what_all_share_does_not_pile_up_on_one(
    make_bill: Make, make_context: Make, in_flight: int, extra_usd: float, first: str
) -> None:
    """Six of six are twice the mean and two more; beyond that, an idle one is preferred, up to three seconds worse."""
    warm = make_bill(0.1, backend="warm", in_flight=in_flight)
    idle = [make_bill(0.1 + extra_usd + number / 1000, backend=name) for number, name in enumerate(("idle", "last"))]
    ordered = ByCost().order(make_context(usd_per_second=0.01), (*idle, warm))
    assert first == ordered[0].candidate.backend
    assert {"warm", "idle", "last"} == {bill.candidate.backend for bill in ordered}


@pytest.mark.parametrize("in_flight", [0, 3, 8])
def test_a_load_within_the_bound_changes_nothing(make_bill: Make, make_context: Make, in_flight: int) -> None:
    """Of 8 here and 3 and 3 elsewhere, the mean is 4.7: the warm one keeps what is its own."""
    warm = make_bill(0.1, backend="warm", in_flight=in_flight)
    others = [make_bill(0.12, backend=name, in_flight=3) for name in ("b", "c")]
    assert "warm" == ByCost().order(make_context(usd_per_second=0.01), (*others, warm))[0].candidate.backend


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"most_load": 0.9}, "at least 1"), ({"even_s": -1.0}, "negative"), ({"most_load": math.nan}, "at least 1")],
)
def test_bounds_are_checked(fields: dict[str, float], words: str) -> None:
    """A bound below the mean could not be kept."""
    with pytest.raises(ValueError, match=words):
        ByCost(**fields)
