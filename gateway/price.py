"""What an attempt used, and what that costs.

Money is reckoned in whole pico-dollars: a price of one millionth of a dollar per million tokens is one of them a token,
so that sums are exact whatever their order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import ClassVar, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gateway.price_change import PriceChange as PriceChange
from gateway.price_change import PriceHours as PriceHours
from gateway.price_change import PriceTier as PriceTier
from gateway.unit_price import UnitPrice
from gateway.units import Units

MILLION = Decimal(1_000_000)
PICO_USD_PER_USD = 10**12
_PICO_USD = Decimal(1).scaleb(-12)


class Usage(Struct, frozen=True, kw_only=True, gc=False):
    """Tokens of one attempt. ``prompt_tokens`` includes cached ones, ``output_tokens`` includes reasoning.

    ``cache_write_tokens`` went into a cache at a price of their own. ``estimated`` is true where the upstream did not
    say and the counts are ours, ``inconsistent`` where what it said cannot be and was cut to what can. ``stated_usd``
    is what it says that the attempt costs, ``None`` where it says nothing. ``units`` is what else it took, of requests
    that are passed on; ``None`` for those that write text.
    """

    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0
    estimated: bool = False
    inconsistent: bool = False
    stated_usd: Decimal | None = None
    units: Units | None = None


class CostDoubt(StrEnum):
    """Why a cost may differ from what the provider charges. A metric label, so it stays small."""

    ESTIMATED_USAGE = "estimated_usage"
    INCONSISTENT_USAGE = "inconsistent_usage"
    NO_CACHE_PRICE = "no_cache_price"
    STATED_ZERO = "stated_zero"
    ASSUMED_PRICE = "assumed_price"


class Charge(Struct, frozen=True, gc=False):
    """What an attempt costs: ``None`` where nobody knows. ``source`` says where the figure comes from.

    ``policy`` for a price in the policy file, ``published`` for the provider's list, ``stated`` for what the upstream
    said of this very answer, ``engine`` for a machine's hours, ``assumed``, or empty where there is no figure.
    """

    usd: Decimal | None
    source: str = ""
    doubts: tuple[CostDoubt, ...] = ()


NO_CHARGE = Charge(Decimal(0))
"""Of an attempt that was refused before it began."""


_NO_UNITS = Units()


class _Rates(NamedTuple):
    """Pico-dollars for a token of each class, and for the request. ``None``: what it has no price of its own for."""

    input: int
    output: int
    cached: int | None
    written: int | None
    reasoning: int | None
    request: int


@dataclass(frozen=True, kw_only=True)
class Price(UnitPrice):
    """What a backend charges for a model; see ``UnitPrice`` for what is no token of text.

    Cached input, input that is written to a cache and reasoning cost what input and output do, where they have no price
    of their own. ``hours`` are changes by the time of the day, ``tiers`` by the length of the prompt,
    ``service_tiers`` by the tier that the request asks for (``flex``, ``batch``, ``priority``); they are made in this
    order. Of several hours the first that holds counts, of tiers the highest that is reached.
    """

    source: ClassVar[str] = "policy"

    input_usd_per_mtok: Decimal = Decimal(0)
    output_usd_per_mtok: Decimal = Decimal(0)
    cached_input_usd_per_mtok: Decimal | None = None
    cache_write_usd_per_mtok: Decimal | None = None
    reasoning_usd_per_mtok: Decimal | None = None
    request_usd: Decimal = Decimal(0)
    service_tiers: Mapping[str, PriceChange] = field(default_factory=dict, hash=False)
    hours: tuple[PriceHours, ...] = ()
    tiers: tuple[PriceTier, ...] = ()

    @cached_property
    def _flat(self) -> _Rates:
        return _rates(self)

    @cached_property
    def _changed(self) -> dict[tuple[int, ...], _Rates]:
        """The rates under each set of conditions that has come up."""
        return {}

    def cost_usd(self, usage: Usage, *, unix_s: float | None = None, service_tier: str = "") -> Decimal:
        """US dollars for ``usage``; each token is priced once, in its own class, and the sum is never negative.

        Of units that nobody has counted nothing is in it.
        """
        rates = self._at(unix_s, usage.prompt_tokens, service_tier) if self.conditional else self._flat
        if usage.units is not None:
            return self._known_usd(rates, usage, usage.units)
        return _usd(rates, usage if _is_consistent(usage) else _cut(usage))

    def charge(self, usage: Usage, *, unix_s: float | None = None, service_tier: str = "") -> Charge:
        """The same, with what is doubtful about it. ``unix_s`` is when the attempt began."""
        rates = self._at(unix_s, usage.prompt_tokens, service_tier) if self.conditional else self._flat
        if usage.units is not None or self.only_by_units:
            return self._charge_for_units(rates, usage, usage.units or _NO_UNITS)
        consistent = _is_consistent(usage)
        counted = usage if consistent else _cut(usage)
        usd = _usd(rates, counted)
        if consistent and not (usage.estimated or usage.inconsistent or (usage.cached_tokens and rates.cached is None)):
            return Charge(usd, self.source)
        doubts = [CostDoubt.ESTIMATED_USAGE] if usage.estimated else []
        if usage.inconsistent or not consistent:
            doubts.append(CostDoubt.INCONSISTENT_USAGE)
        if counted.cached_tokens and rates.cached is None and rates.input:
            doubts.append(CostDoubt.NO_CACHE_PRICE)
        return Charge(usd, self.source, tuple(doubts))

    @cached_property
    def only_by_units(self) -> bool:
        """Whether it has nothing to say of tokens."""
        return self.by_units and not (self.input_usd_per_mtok or self.output_usd_per_mtok)

    def _known_usd(self, rates: _Rates, usage: Usage, units: Units) -> Decimal:
        heard_tokens = units.audio_tokens + units.image_tokens
        drawn_tokens = units.output_audio_tokens + units.output_image_tokens
        if drawn_tokens > usage.output_tokens:  # a forecast, of what is not written word by word
            usage = replace(usage, output_tokens=drawn_tokens)
        if heard_tokens > usage.prompt_tokens:  # nor read
            usage = replace(usage, prompt_tokens=usage.prompt_tokens + heard_tokens)
        usd = _usd(rates, usage) + self.media_usd(units, input_pico=rates.input, output_pico=rates.output)
        return max(_rounded(sum(filter(None, self.amounts(units)), usd)), Decimal(0))

    def _charge_for_units(self, rates: _Rates, usage: Usage, units: Units) -> Charge:
        """``None`` where something has a price and nobody said how much of it there was."""
        by_tokens = rates.input or rates.output or self.by_media_tokens
        amounts = list(self.amounts(units))
        nobody_says = self.only_by_units and not amounts
        if units.elsewhere or nobody_says or None in amounts or (by_tokens and not units.counted):
            return Charge(None)
        counted = usage if _is_consistent(usage) else _cut(usage)
        doubts: tuple[CostDoubt, ...] = (CostDoubt.ESTIMATED_USAGE,) if usage.estimated else ()
        if usage.inconsistent or counted is not usage:
            doubts += (CostDoubt.INCONSISTENT_USAGE,)
        return Charge(self._known_usd(rates, counted, units), self.source, doubts)

    @cached_property
    def conditional(self) -> bool:
        """Whether it is another at some hour, for some prompt or tier of service."""
        return bool(self.tiers or self.hours or self.service_tiers)

    def at(self, unix_s: float | None = None, *, prompt_tokens: int = 0, service_tier: str = "") -> "Price":
        """The plain price that holds for such a request: without conditions, and the same object for the same ones."""
        changes = self._changes(unix_s, prompt_tokens, service_tier)
        conditions = tuple(map(id, changes))
        plain = self._plain.get(conditions)
        if plain is None:
            rates = self._at(unix_s, prompt_tokens, service_tier)
            mtok = [None if rate is None else Decimal(rate) / MILLION for rate in rates[:5]]
            plain = self._plain[conditions] = Price(
                input_usd_per_mtok=mtok[0] or Decimal(0),
                output_usd_per_mtok=mtok[1] or Decimal(0),
                cached_input_usd_per_mtok=mtok[2],
                cache_write_usd_per_mtok=mtok[3],
                reasoning_usd_per_mtok=mtok[4],
                request_usd=Decimal(rates.request).scaleb(-12),
            )
        return plain

    @cached_property
    def _plain(self) -> dict[tuple[int, ...], "Price"]:
        """The price under each set of conditions that somebody asked for."""
        return {}

    def _changes(self, unix_s: float | None, prompt_tokens: int, service_tier: str) -> list[PriceChange]:
        """What is made of the price for such a request, in this order. They live as long as the price does."""
        changes: list[PriceChange] = []
        if unix_s is not None:
            changes += [hours for hours in self.hours if hours.holds(unix_s)][:1]
        reached = [tier for tier in self.tiers if prompt_tokens > tier.above_prompt_tokens]
        if reached:
            changes.append(max(reached, key=lambda tier: tier.above_prompt_tokens))
        if (change := self.service_tiers.get(service_tier)) is not None:
            changes.append(change)
        return changes

    def _at(self, unix_s: float | None, prompt_tokens: int, service_tier: str) -> _Rates:
        changes = self._changes(unix_s, prompt_tokens, service_tier)
        conditions = tuple(map(id, changes))
        rates = self._changed.get(conditions)
        if rates is None:
            rates = self._changed[conditions] = _rates(self, *changes)
        return rates


@dataclass(frozen=True, kw_only=True)
class AssumedPrice(Price):
    """What a route takes a model to cost of which nobody knows the price."""

    source: ClassVar[str] = "assumed"


def _rates(*layers: "Price | PriceChange") -> _Rates:
    """In pico-dollars; of what several layers say, the last counts."""

    def last(name: str) -> int | None:
        said = [usd for layer in layers if (usd := getattr(layer, name)) is not None]
        return round(said[-1] * (PICO_USD_PER_USD if name == "request_usd" else MILLION)) if said else None

    return _Rates(
        input=last("input_usd_per_mtok") or 0,
        output=last("output_usd_per_mtok") or 0,
        cached=last("cached_input_usd_per_mtok"),
        written=last("cache_write_usd_per_mtok"),
        reasoning=last("reasoning_usd_per_mtok"),
        request=last("request_usd") or 0,
    )


def _usd(rates: _Rates, usage: Usage) -> Decimal:
    cached_tokens, written_tokens, thought_tokens = (
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    )
    input_, output, cached, written, reasoning, pico_usd = rates
    pico_usd += (usage.prompt_tokens - cached_tokens - written_tokens) * input_
    pico_usd += (usage.output_tokens - thought_tokens) * output
    if cached_tokens:
        pico_usd += cached_tokens * (input_ if cached is None else cached)
    if written_tokens:
        pico_usd += written_tokens * (input_ if written is None else written)
    if thought_tokens:
        pico_usd += thought_tokens * (output if reasoning is None else reasoning)
    return (Decimal(pico_usd) * _PICO_USD).normalize()


def _rounded(usd: Decimal) -> Decimal:
    """In whole pico-dollars."""
    return round(usd, 12).normalize()


def _is_consistent(usage: Usage) -> bool:
    """Whether no class has less than nothing, or more than what it is a part of."""
    cached_tokens, written_tokens = usage.cached_tokens, usage.cache_write_tokens
    return (
        cached_tokens >= 0
        and written_tokens >= 0
        and cached_tokens + written_tokens <= usage.prompt_tokens
        and 0 <= usage.reasoning_tokens <= usage.output_tokens
    )


def _cut(usage: Usage) -> Usage:
    """Cut to what can be: no token is in two classes."""
    prompt_tokens, output_tokens = max(usage.prompt_tokens, 0), max(usage.output_tokens, 0)
    cached_tokens = min(max(usage.cached_tokens, 0), prompt_tokens)
    return Usage(
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        cached_tokens=cached_tokens,
        cache_write_tokens=min(max(usage.cache_write_tokens, 0), prompt_tokens - cached_tokens),
        reasoning_tokens=min(max(usage.reasoning_tokens, 0), output_tokens),
    )
