"""The five terms of the bill, each against figures worked out by hand."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.price import Price, PriceHours, PriceTier, Usage
from policies.cost.decoding import Decoding
from policies.cost.money import Money
from policies.cost.prefill import Prefill
from policies.cost.risk import Risk
from policies.cost.waiting import Waiting

Make = Callable[..., Any]


def test_money_bills_the_forecast_and_prices_a_warm_prefix_as_cached_input(
    make_context: Make, make_candidate: Make
) -> None:
    """600 fresh at 1, 400 warm at 0.1, 100 written at 2 US dollars per million, and 0.001 a request."""
    price = Price(
        input_usd_per_mtok=Decimal(1),
        output_usd_per_mtok=Decimal(2),
        cached_input_usd_per_mtok=Decimal("0.1"),
        request_usd=Decimal("0.001"),
    )
    ctx = make_context(prompt_tokens=1000, p50=100)
    assert pytest.approx(0.00184) == Money().usd(ctx, make_candidate(price=price, warm_tokens=400))


def test_money_takes_an_unknown_price_for_a_high_one_and_zero_for_zero(
    make_context: Make, make_candidate: Make
) -> None:
    """Nobody is preferred for keeping silent."""
    ctx = make_context(prompt_tokens=1000, p50=100)
    free = Price(input_usd_per_mtok=Decimal(0), output_usd_per_mtok=Decimal(0))
    assert pytest.approx(0.033) == Money().usd(ctx, make_candidate(price=None))
    assert pytest.approx(0.0055) == Money(unknown_usd_per_mtok=5).usd(ctx, make_candidate(price=None))
    assert 0.0 == Money().usd(ctx, make_candidate(price=free))


def test_waiting_costs_the_seconds_before_the_prompt_can_be_begun(make_context: Make, make_candidate: Make) -> None:
    """3 seconds at 0.01 US dollars each; what is being written does not stand in the way."""
    candidate = make_candidate(wait_s=3.0, in_flight=50, running_output_tokens=9000)
    assert pytest.approx(0.03) == Waiting().usd(make_context(usd_per_second=0.01), candidate)


def test_prefill_costs_the_cold_part_once_for_itself_and_mu_times_for_the_others(
    make_context: Make, make_candidate: Make
) -> None:
    """600 cold tokens at 1,000 a second."""
    ctx = make_context(prompt_tokens=1000, usd_per_second=0.01)
    assert pytest.approx(0.012) == Prefill().usd(ctx, make_candidate(warm_tokens=400))
    assert pytest.approx(0.006) == Prefill(mu=0).usd(ctx, make_candidate(warm_tokens=400))
    assert 0.0 == Prefill().usd(ctx, make_candidate(warm_tokens=1200))


def test_a_busy_warm_replica_loses_to_an_idle_cold_one_and_wins_against_one_as_busy(
    make_context: Make, make_candidate: Make
) -> None:
    """Seconds are compared, not scores: a short match cannot draw everything to one replica."""
    ctx = make_context(prompt_tokens=2000)

    def total(**fields: Any) -> float:
        candidate = make_candidate(**fields)
        return Waiting().usd(ctx, candidate) + Prefill().usd(ctx, candidate)

    assert total() < total(warm_tokens=500, wait_s=4.0)
    assert total(warm_tokens=500, wait_s=4.0) < total(wait_s=4.0)
    assert total(warm_tokens=1900, wait_s=0.5) < total()


def test_decoding_costs_the_median_answer_at_the_present_speed(make_context: Make, make_candidate: Make) -> None:
    """100 tokens at 0.02 s, at 0.01 US dollars a second; a share of it where the answer is read as it comes."""
    ctx = make_context(p50=100, usd_per_second=0.01)
    assert pytest.approx(0.02) == Decoding(share=1.0).usd(ctx, make_candidate())
    assert pytest.approx(0.006) == Decoding().usd(ctx, make_candidate())


def test_choices_are_decoded_side_by_side(make_context: Make, make_candidate: Make, make_request: Make) -> None:
    """Four choices of 100 tokens take as long as one."""
    ctx = make_context(make_request("hello", n=4), p50=400, usd_per_second=0.01)
    assert pytest.approx(0.02) == Decoding(share=1.0).usd(ctx, make_candidate())


def test_risk_costs_what_a_success_is_worth_times_how_often_it_fails(make_context: Make, make_candidate: Make) -> None:
    """A fifth of 0.05 US dollars."""
    assert pytest.approx(0.01) == Risk().usd(make_context(usd_per_success=0.05), make_candidate(failure_rate=0.2))


@pytest.mark.parametrize(("prompt_tokens", "usd"), [(5999, 0.0), (6000, 0.05)])
def test_what_did_not_fit_will_not_fit_again(
    make_context: Make, make_candidate: Make, prompt_tokens: int, usd: float
) -> None:
    """A request as long as one that was too long for a window fails there for certain."""
    ctx, small = make_context(prompt_tokens=prompt_tokens, usd_per_success=0.05), make_candidate(too_long_tokens=6001)
    assert [usd, usd] == [Risk().usd(ctx, small), *Risk().usd_each(ctx, [small])]


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (Money, {"unknown_usd_per_mtok": -1}),
        (Money, {"unknown_usd_per_mtok": float("inf")}),
        (Prefill, {"mu": -0.1}),
        (Prefill, {"mu": float("nan")}),
        (Decoding, {"share": 1.1}),
        (Decoding, {"share": -0.1}),
    ],
)
def test_a_parameter_out_of_range_is_named(kind: type, parameters: dict[str, float]) -> None:
    """So that the loader can say where it stands."""
    with pytest.raises(ValueError, match=f"`{next(iter(parameters))}`"):
        kind(**parameters)


def test_staying_costs_at_most_so_many_seconds(make_context: Make, make_candidate: Make) -> None:
    """The request's own reading counts in full, what it takes from others only up to a bound."""
    ctx = make_context(prompt_tokens=100_000, usd_per_second=0.01)
    candidate = make_candidate(prefill_tokens_per_s=1000.0)
    assert pytest.approx(1.1) == Prefill(mu=4.0, most_extra_s=10.0).usd(ctx, candidate)


def test_what_a_provider_writes_to_its_cache_has_its_own_price(make_context: Make, make_candidate: Make) -> None:
    """600 written at 1.25, 400 read at 0.1, 100 of the answer at 2 US dollars per million."""
    price = Price(
        input_usd_per_mtok=Decimal(1),
        output_usd_per_mtok=Decimal(2),
        cached_input_usd_per_mtok=Decimal("0.1"),
        cache_write_usd_per_mtok=Decimal("1.25"),
    )
    ctx = make_context(prompt_tokens=1000, p50=100)
    expected = pytest.approx(600 * 1.25e-6 + 400 * 0.1e-6 + 100 * 2e-6)
    assert expected == Money().usd(ctx, make_candidate(price=price, warm_tokens=400))
    usage = Usage(prompt_tokens=1000, output_tokens=100, cached_tokens=400, cache_write_tokens=600)
    assert expected == float(price.cost_usd(usage))


def test_expected_money_is_what_the_ledger_would_bill(make_context: Make, make_candidate: Make) -> None:
    """To a billionth, though in floating point; also for the same price met again."""
    price = Price(input_usd_per_mtok=Decimal("0.15"), output_usd_per_mtok=Decimal("0.6"), request_usd=Decimal("1e-5"))
    ctx, money = make_context(prompt_tokens=12_345, p50=678), Money()
    exact = float(price.cost_usd(Usage(prompt_tokens=12_345, output_tokens=678)))
    assert [pytest.approx(exact, abs=1e-9)] * 2 == money.usd_each(ctx, [make_candidate(price=price)] * 2)


def test_money_is_that_of_the_hour_and_of_a_prompt_of_this_length(
    make_context: Any, make_candidate: Any, make_request: Any
) -> None:
    """A bill says what the attempt will cost, whatever the price depends on."""
    price = Price(
        input_usd_per_mtok=Decimal(1),
        output_usd_per_mtok=Decimal(0),
        tiers=(PriceTier(above_prompt_tokens=1000, input_usd_per_mtok=Decimal(5)),),
        hours=(PriceHours(from_utc="00:00", until_utc="12:00", input_usd_per_mtok=Decimal(2)),),
    )
    noon_s = make_request("hi").arrival.received_unix_s // 86_400 * 86_400 + 43_200
    money, found = Money(), []
    for unix_s, prompt_tokens in ((noon_s, 1000), (noon_s - 1, 1000), (noon_s, 1001)):
        request = make_request("hi")
        arrival = replace(request.arrival, received_unix_s=unix_s)
        ctx = make_context(replace(request, arrival=arrival), prompt_tokens=prompt_tokens, p50=10)
        found.append(money.usd(ctx, make_candidate(price=price)))
    assert [pytest.approx(0.001), pytest.approx(0.002), pytest.approx(0.005005)] == found
