from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.price import MILLION, CostDoubt, Price, PriceChange, PriceHours, PriceTier, Usage

PLAIN = Price(input_usd_per_mtok=Decimal(3), output_usd_per_mtok=Decimal(15))
CACHED = Price(
    input_usd_per_mtok=Decimal(3),
    output_usd_per_mtok=Decimal(15),
    cached_input_usd_per_mtok=Decimal("0.3"),
    cache_write_usd_per_mtok=Decimal("3.75"),
    reasoning_usd_per_mtok=Decimal(20),
    request_usd=Decimal("0.001"),
)
NOON, MIDNIGHT = 1_700_000_000.0 // 86_400 * 86_400 + 43_200, 1_700_000_000.0 // 86_400 * 86_400

amounts = st.decimals(0, 1000, places=6, allow_nan=False, allow_infinity=False)
counts = st.integers(-(10**9), 10**9)
changes = {
    name: st.none() | amounts
    for name in (
        "input_usd_per_mtok",
        "output_usd_per_mtok",
        "cached_input_usd_per_mtok",
        "cache_write_usd_per_mtok",
        "reasoning_usd_per_mtok",
        "request_usd",
    )
}
prices = st.builds(
    Price,
    input_usd_per_mtok=amounts,
    output_usd_per_mtok=amounts,
    cached_input_usd_per_mtok=st.none() | amounts,
    cache_write_usd_per_mtok=st.none() | amounts,
    reasoning_usd_per_mtok=st.none() | amounts,
    request_usd=amounts,
    service_tiers=st.dictionaries(st.sampled_from(["flex", "batch"]), st.builds(PriceChange, **changes)),
    hours=st.lists(
        st.builds(PriceHours, from_utc=st.just("00:30"), until_utc=st.just("16:30"), **changes), max_size=2
    ).map(tuple),
    tiers=st.lists(
        st.builds(PriceTier, above_prompt_tokens=st.sampled_from([1000, 200_000]), **changes), max_size=2
    ).map(tuple),
)
usages = st.builds(
    Usage,
    prompt_tokens=counts,
    output_tokens=counts,
    cached_tokens=counts,
    reasoning_tokens=counts,
    cache_write_tokens=counts,
    estimated=st.booleans(),
)
moments = st.floats(0, 4e9, allow_nan=False)


@pytest.mark.parametrize(
    ("usage", "expected_usd", "doubtful"),
    [
        ((1000, 0, 0), "0.003", False),
        ((1000, 900, 0), "0.00057", False),
        ((1000, 1000, 0), "0.0003", False),
        ((1000, 0, 500), "0.003375", False),
        ((1000, 900, 500), "0.000645", True),
        ((100, 900, 0), "0.00003", True),
        ((1000, -5, 0), "0.003", True),
        ((-5, 0, 0), "0", True),
    ],
)
def test_each_prompt_token_is_priced_once_in_its_own_class(
    usage: tuple[int, int, int], expected_usd: str, doubtful: bool
) -> None:
    """Cached, written or plain: never two of them, never less than nothing; what cannot be is cut and marked."""
    prompt_tokens, cached_tokens, written_tokens = usage
    charge = _without_request(CACHED).charge(
        Usage(prompt_tokens=prompt_tokens, cached_tokens=cached_tokens, cache_write_tokens=written_tokens)
    )
    expected_doubts = (CostDoubt.INCONSISTENT_USAGE,) if doubtful else ()
    assert (Decimal(expected_usd), expected_doubts) == (charge.usd, charge.doubts)


def test_without_a_cache_price_cached_tokens_cost_what_input_costs() -> None:
    """Too much rather than too little, and said so; where input is free there is nothing to say."""
    usage = Usage(prompt_tokens=1000, cached_tokens=900, output_tokens=10)
    charge = PLAIN.charge(usage)
    assert (Decimal("0.00315"), (CostDoubt.NO_CACHE_PRICE,)) == (charge.usd, charge.doubts)
    free = Price(input_usd_per_mtok=Decimal(0), output_usd_per_mtok=Decimal(0))
    assert (Decimal(0), ()) == (free.charge(usage).usd, free.charge(usage).doubts)


def test_reasoning_and_the_request_have_prices_of_their_own() -> None:
    """Reasoning is a part of the output, and no token of it is paid twice."""
    usage = Usage(output_tokens=100, reasoning_tokens=60)
    assert Decimal("0.0028") == CACHED.cost_usd(usage)
    assert Decimal("0.0015") == PLAIN.cost_usd(usage)


def test_counts_of_our_own_are_marked() -> None:
    """An estimate is a cost, and known to be one."""
    charge = PLAIN.charge(Usage(prompt_tokens=10, output_tokens=10, estimated=True))
    assert (CostDoubt.ESTIMATED_USAGE,) == charge.doubts


def test_a_long_prompt_makes_all_of_its_tokens_dearer() -> None:
    """A tier is a cliff: of those that are reached the highest counts, for all tokens, and from one token above."""
    price = Price(
        input_usd_per_mtok=Decimal(3),
        output_usd_per_mtok=Decimal(15),
        tiers=(
            PriceTier(above_prompt_tokens=400_000, input_usd_per_mtok=Decimal(9)),
            PriceTier(above_prompt_tokens=200_000, input_usd_per_mtok=Decimal(6), output_usd_per_mtok=Decimal(22)),
        ),
    )
    found = [price.cost_usd(Usage(prompt_tokens=n, output_tokens=1000)) for n in (200_000, 200_001, 400_001)]
    assert [Decimal("0.615"), Decimal("1.222006"), Decimal("3.615009")] == found


@pytest.mark.parametrize(("unix_s", "expected_usd"), [(NOON, "2"), (MIDNIGHT, "1"), (None, "1")])
def test_some_hours_cost_otherwise(unix_s: float | None, expected_usd: str) -> None:
    """By the time of the day in UTC; who does not say when, pays the usual price."""
    hours = PriceHours(from_utc="00:30", until_utc="16:30", input_usd_per_mtok=Decimal(2))
    price = Price(input_usd_per_mtok=Decimal(1), output_usd_per_mtok=Decimal(1), hours=(hours,))
    assert Decimal(expected_usd) == price.cost_usd(Usage(prompt_tokens=1_000_000), unix_s=unix_s)


def test_hours_may_go_over_midnight() -> None:
    """From 16:30 to 00:30, its first minute and not the one after its last."""
    hours = PriceHours(from_utc="16:30", until_utc="00:30")
    at = [MIDNIGHT + minutes * 60 for minutes in (0, 29, 30, 16 * 60 + 29, 16 * 60 + 30)]
    assert [True, True, False, False, True] == [hours.holds(unix_s) for unix_s in at]


def test_a_tier_of_service_goes_before_hours_and_length() -> None:
    """What it leaves out stays as it is; a name that the price does not have changes nothing."""
    price = Price(
        input_usd_per_mtok=Decimal(2),
        output_usd_per_mtok=Decimal(8),
        tiers=(PriceTier(above_prompt_tokens=1000, input_usd_per_mtok=Decimal(4)),),
        service_tiers={"flex": PriceChange(input_usd_per_mtok=Decimal(1))},
    )
    usage = Usage(prompt_tokens=1_000_000, output_tokens=1_000_000)
    assert (Decimal(9), Decimal(12)) == (
        price.cost_usd(usage, service_tier="flex"),
        price.cost_usd(usage, service_tier="auto"),
    )


@given(price=prices, usage=usages, unix_s=moments, tier=st.sampled_from(["", "flex", "batch"]))
def test_no_cost_is_negative_and_all_are_whole_pico_dollars(
    price: Price, usage: Usage, unix_s: float, tier: str
) -> None:
    """Whatever an upstream counts; and the two ways to ask agree."""
    charge = price.charge(usage, unix_s=unix_s, service_tier=tier)
    assert charge.usd is not None
    assert charge.usd >= 0
    assert 0 == charge.usd * 10**12 % 1
    assert charge.usd == price.cost_usd(usage, unix_s=unix_s, service_tier=tier)


@given(price=prices, parts=st.lists(st.tuples(usages, moments), max_size=8), order=st.randoms(use_true_random=False))
def test_a_sum_is_the_same_in_every_order(price: Price, parts: list[tuple[Usage, float]], order: object) -> None:
    """Attempts make a request and requests a task, to the last digit."""
    costs = [price.cost_usd(usage, unix_s=unix_s) for usage, unix_s in parts]
    shuffled = list(costs)
    order.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis' Random
    assert sum(map(Fraction, costs)) == Fraction(sum(shuffled, Decimal(0)))


@given(
    price=prices,
    counts=st.tuples(*[st.integers(0, 10**6)] * 5),
    more=st.integers(1, 10**6),
    which=st.sampled_from(["prompt", "output"]),
)
def test_more_tokens_never_cost_less(price: Price, counts: tuple[int, ...], more: int, which: str) -> None:
    """At one price: a tier for long prompts may be cheaper, if somebody wants it so."""
    plain, cached, written, output, thought = counts
    usage = Usage(
        prompt_tokens=plain + cached + written,
        cached_tokens=cached,
        cache_write_tokens=written,
        output_tokens=output + thought,
        reasoning_tokens=thought,
    )
    grown = replace(usage, **{f"{which}_tokens": getattr(usage, f"{which}_tokens") + more})
    flat = price.at()
    assert flat.cost_usd(usage) <= flat.cost_usd(grown)


@given(price=prices, prompt=st.integers(0, 10**6), cached=st.integers(0, 10**6))
def test_cached_tokens_are_paid_once(price: Price, prompt: int, cached: int) -> None:
    """What is cached is taken out of the rest: a prompt costs its two parts and no more."""
    flat = price.at(prompt_tokens=prompt)
    cached = min(cached, prompt)
    rate = flat.input_usd_per_mtok if flat.cached_input_usd_per_mtok is None else flat.cached_input_usd_per_mtok
    expected = ((prompt - cached) * flat.input_usd_per_mtok + cached * rate) / MILLION + flat.request_usd
    assert expected == flat.cost_usd(Usage(prompt_tokens=prompt, cached_tokens=cached))


@given(price=prices, usage=usages, unix_s=moments)
def test_the_price_that_holds_costs_the_same(price: Price, usage: Usage, unix_s: float) -> None:
    """``at`` gives the plain price under the conditions of a request."""
    assert price.cost_usd(usage, unix_s=unix_s) == price.at(unix_s, prompt_tokens=usage.prompt_tokens).cost_usd(usage)


def test_a_price_survives_the_ledger() -> None:
    """With its conditions: what a decision was made from is what it was."""
    price = Price(
        input_usd_per_mtok=Decimal("0.59"),
        output_usd_per_mtok=Decimal("0.79"),
        service_tiers={"flex": PriceChange(input_usd_per_mtok=Decimal(1))},
        hours=(PriceHours(from_utc="00:30", until_utc="16:30", request_usd=Decimal(1)),),
        tiers=(PriceTier(above_prompt_tokens=7),),
    )
    assert Decimal("0.00000059") == price.cost_usd(Usage(prompt_tokens=1))
    assert price == msgspec.msgpack.decode(msgspec.msgpack.encode(price), type=Price)


def _without_request(price: Price) -> Price:
    """The same price without one for the request."""
    return Price(
        input_usd_per_mtok=price.input_usd_per_mtok,
        output_usd_per_mtok=price.output_usd_per_mtok,
        cached_input_usd_per_mtok=price.cached_input_usd_per_mtok,
        cache_write_usd_per_mtok=price.cache_write_usd_per_mtok,
    )
