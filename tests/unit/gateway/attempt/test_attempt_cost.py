from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from gateway.attempt.attempt_cost import AttemptCost
from gateway.facts import BackendFacts, ModelFacts
from gateway.price import Charge, CostDoubt, Price, PriceChange, PriceHours, Usage
from gateway.prices.price_book import PriceBook
from gateway.prices.published import PublishedPrice

USAGE = Usage(prompt_tokens=1_000_000, output_tokens=1_000_000)
CHEAP = Price(input_usd_per_mtok=Decimal(1), output_usd_per_mtok=Decimal(2))
DEAR = Price(input_usd_per_mtok=Decimal(10), output_usd_per_mtok=Decimal(20))
PUBLISHED = PublishedPrice(input_usd_per_mtok=Decimal(3), output_usd_per_mtok=Decimal(4))
STATED = replace(USAGE, stated_usd=Decimal("1.25"))


class AssumedPrice(Price):
    """As a route assumes it."""

    source = "assumed"


ASSUMED = AssumedPrice(input_usd_per_mtok=Decimal(30), output_usd_per_mtok=Decimal(30))


class OneListBook(PriceBook):
    """A book whose only published price is that of ``listed``."""

    class _List:
        def find(self, provider: str, model: str) -> PublishedPrice | None:
            """See ``PublishedPrices.find``."""
            return PUBLISHED if (provider, model) == ("acme", "listed") else None

    published = _List()  # type: ignore[assignment]  # the one verb that a book needs of it


@pytest.fixture
def cost(make_request: Any, make_candidate: Any) -> Callable[..., AttemptCost]:
    """The cost of an attempt on ``asked`` at a backend that lists the models ``listed``."""

    def make(
        price: Price | None,
        *,
        service_tier: str = "",
        unix_s: float = 0.0,
        priced: dict[str, Price] | None = None,
        **facts: Any,
    ) -> AttemptCost:
        raw = {"service_tier": Raw(f'"{service_tier}"'.encode())} if service_tier else {}
        request = replace(make_request("hi"), raw=raw)
        known = {name: ModelFacts(price=its) for name, its in (priced or {}).items()}
        return AttemptCost(
            request,
            make_candidate(model="asked", price=price),
            BackendFacts(models=known, operations=frozenset(), **facts),
            book=OneListBook(),
            started_s=request.arrival.received_s + unix_s - request.arrival.received_unix_s,
        )

    return make


def test_an_answer_is_priced_by_who_was_asked(cost: Any) -> None:
    """Where the upstream does not say who answered, or says the same."""
    expected = Charge(Decimal(3), "policy")
    assert (expected, expected) == (cost(CHEAP).of(USAGE), cost(CHEAP).of(USAGE, "asked"))


def test_an_answer_is_priced_by_who_gave_it_where_the_file_has_a_price_for_it(cost: Any) -> None:
    """An upstream that hands on to another model charges for that one."""
    assert Charge(Decimal(30), "policy") == cost(CHEAP, priced={"other": DEAR}).of(USAGE, "other")


def test_a_price_of_the_file_holds_for_whatever_answers_under_that_name(cost: Any) -> None:
    """A published price does not take its place: who wrote it knows their contract."""
    assert Charge(Decimal(3), "policy") == cost(CHEAP, price_list="acme").of(USAGE, "listed")


@pytest.mark.parametrize(
    "asked", [None, ASSUMED, PublishedPrice(input_usd_per_mtok=Decimal(9), output_usd_per_mtok=Decimal(9))]
)
def test_of_published_prices_it_is_that_of_who_answered(cost: Any, asked: Price | None) -> None:
    """And an assumption ends where somebody knows."""
    assert Charge(Decimal(7), "published") == cost(asked, price_list="acme").of(USAGE, "listed")


def test_a_model_that_no_list_has_leaves_the_price_of_the_one_asked(cost: Any) -> None:
    """Dated names of the same model, mostly."""
    assert Charge(Decimal(7), "published") == cost(PUBLISHED, price_list="acme").of(USAGE, "asked-2026-11-30")


def test_an_unknown_price_is_unknown(cost: Any) -> None:
    """It is not zero, whatever the upstream says of nothing."""
    assert Charge(None) == cost(None).of(USAGE)
    assert Charge(None, "", (CostDoubt.STATED_ZERO,)) == cost(None, states_cost=True).of(
        replace(USAGE, stated_usd=Decimal(0))
    )


def test_what_the_upstream_states_goes_before_a_published_price(cost: Any) -> None:
    """Of one that is known to state it; not before the policy file's."""
    stated = Charge(Decimal("1.25"), "stated")
    assert stated == cost(PUBLISHED, states_cost=True).of(STATED)
    assert stated == cost(None, states_cost=True).of(STATED)
    assert Charge(Decimal(7), "published") == cost(PUBLISHED).of(STATED)
    assert Charge(Decimal(3), "policy") == cost(CHEAP, states_cost=True).of(STATED)


def test_a_stated_zero_is_not_believed_of_a_model_that_has_a_price(cost: Any) -> None:
    """The price counts, and the zero is marked; a model that is free is free."""
    zero = replace(USAGE, stated_usd=Decimal(0))
    expected = Charge(Decimal(7), "published", (CostDoubt.STATED_ZERO,))
    assert expected == cost(PUBLISHED, states_cost=True).of(zero)
    free = PublishedPrice(input_usd_per_mtok=Decimal(0), output_usd_per_mtok=Decimal(0))
    assert Charge(Decimal(0), "published") == cost(free, states_cost=True).of(zero)


def test_what_cannot_be_is_not_believed(cost: Any) -> None:
    """A million dollars for an answer is a mistake of somebody's."""
    assert Charge(None, "stated") == cost(None, states_cost=True).of(replace(USAGE, stated_usd=Decimal(10**6)))


def test_an_assumed_price_is_marked(cost: Any) -> None:
    """A sum tells how much of it is assumed."""
    assert Charge(Decimal(60), "assumed", (CostDoubt.ASSUMED_PRICE,)) == cost(ASSUMED).of(USAGE)


def test_counts_of_ours_are_marked_whoever_sets_the_price(cost: Any) -> None:
    """Stated or reckoned."""
    estimated = replace(USAGE, estimated=True)
    assert (CostDoubt.ESTIMATED_USAGE,) == cost(CHEAP).of(estimated).doubts


def test_the_tier_of_service_and_the_hour_of_the_request_count(cost: Any) -> None:
    """As the client asked, when the attempt began."""
    hours = PriceHours(from_utc="00:30", until_utc="16:30", input_usd_per_mtok=Decimal(5))
    price = Price(
        input_usd_per_mtok=Decimal(1),
        output_usd_per_mtok=Decimal(2),
        hours=(hours,),
        service_tiers={"flex": PriceChange(output_usd_per_mtok=Decimal("0.5"))},
    )
    found = [
        cost(price).of(USAGE).usd,
        cost(price, unix_s=3600.0).of(USAGE).usd,
        cost(price, service_tier="flex").of(USAGE).usd,
        cost(price, service_tier="auto").of(USAGE).usd,
    ]
    assert [Decimal(3), Decimal(7), Decimal("1.5"), Decimal(3)] == found
