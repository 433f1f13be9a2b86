"""genai-prices' data, made into our price file: its JSON as it is published, or the installed package.

https://github.com/pydantic/genai-prices. What has no place in a price of ours is left out: pages of documents, video,
cached sound and pictures, an hour's caching, and surcharges by region or search.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import date, time
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from gateway.price import PriceChange, PriceHours, PriceTier
from gateway.prices.published import CLAUSES, Dated, ListedModel, PriceFile, PublishedPrice

_FIELDS = {
    "input_mtok": "input_usd_per_mtok",
    "output_mtok": "output_usd_per_mtok",
    "cache_read_mtok": "cached_input_usd_per_mtok",
    "cache_write_mtok": "cache_write_usd_per_mtok",
    "output_reasoning_mtok": "reasoning_usd_per_mtok",
    "requests_kcount": "request_usd",
    "input_audio_mtok": "audio_input_usd_per_mtok",
    "output_audio_mtok": "audio_output_usd_per_mtok",
    "input_image_mtok": "image_input_usd_per_mtok",
    "output_image_mtok": "image_output_usd_per_mtok",
    "input_audio_hours": "audio_usd_per_minute",
    "input_mchars": "speech_usd_per_mchar",
}
_IN_ANY_CONDITION = frozenset({field.name for field in fields(PriceChange)})
_NOTHING_UNSAID = frozenset({"request_usd", "input_usd_per_mtok", "output_usd_per_mtok"})
_BY_PIECE = frozenset({"audio_usd_per_minute", "speech_usd_per_mchar"})
_TIERS_OF_SERVICE = ("processing", "service_tier")
_UNIT = {"requests_kcount": 1000, "input_audio_hours": 60}

Json = Mapping[str, Any]


class _Rates(NamedTuple):
    """A set of prices, by our names; and above so many tokens of prompt, others."""

    usd: dict[str, Decimal]
    tiers: tuple[PriceTier, ...]


def price_file(providers: Iterable[Json], *, origin: str, made_on: date) -> PriceFile:
    """The file out of the parsed data.

    Raises:
        ValueError: it is not what we know as genai-prices' data.
    """
    lists: dict[str, Raw] = {}
    fallbacks: dict[str, tuple[str, ...]] = {}
    try:
        for provider in providers:
            models = [model for raw in provider["models"] if (model := _model(raw, made_on)) is not None]
            lists[provider["id"]] = Raw(msgspec.json.encode(_said(msgspec.to_builtins(models))))
            if provider.get("fallback_model_providers"):
                fallbacks[provider["id"]] = tuple(provider["fallback_model_providers"])
    except (KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"this is no data of genai-prices: {type(error).__name__} {error}") from error
    if not lists:
        raise ValueError("this is no data of genai-prices: it has no provider")
    return PriceFile(made_on=made_on.isoformat(), origin=origin, providers=lists, fallbacks=fallbacks)


def _model(raw: Json, made_on: date) -> ListedModel | None:
    """``None`` for one without a price for tokens, minutes or characters."""
    prices = raw["prices"] if isinstance(raw["prices"], list) else [{"prices": raw["prices"]}]
    variants = dict(_variants(raw.get("price_variants") or (), made_on))
    dated: list[Dated] = []
    for conditional in prices:
        rates, condition = _rates(conditional["prices"]), conditional.get("constraint") or {}
        if "start_time" in condition and dated:
            dated[-1] = _with_hours(dated[-1], rates, condition)
        elif "input_usd_per_mtok" in rates.usd or _BY_PIECE & rates.usd.keys():
            dated.append(Dated(price=_price(rates, variants), since=condition.get("start_date", "")))
    past = [number for number, one in enumerate(dated) if one.since <= made_on.isoformat()]
    held = dated[past[-1] :] if past else dated
    return ListedModel(id=raw["id"], match=_clause(raw["match"]), prices=tuple(held)) if held else None


def _price(rates: _Rates, service_tiers: Mapping[str, PriceChange]) -> PublishedPrice:
    price = msgspec.convert(rates.usd, PublishedPrice)
    return replace(price, tiers=rates.tiers, service_tiers=service_tiers)


def _with_hours(dated: Dated, rates: _Rates, condition: Json) -> Dated:
    """Of two that hold at a time the later one counts there; here, the one that is looked at first."""
    changed = {name: usd for name, usd in rates.usd.items() if name in _IN_ANY_CONDITION}
    hours = PriceHours(from_utc=_minute(condition["start_time"]), until_utc=_minute(condition["end_time"]), **changed)
    return Dated(price=replace(dated.price, hours=(hours, *dated.price.hours)), since=dated.since)


def _rates(prices: Json) -> _Rates:
    usd: dict[str, Decimal] = {}
    above: dict[int, dict[str, Decimal]] = {}
    for key, name in _FIELDS.items():
        amount = prices.get(key)
        if amount is None:
            continue
        unit = _UNIT.get(key, 1)
        usd[name] = _usd(amount["base"] if isinstance(amount, Mapping) else amount) / unit
        for tier in amount["tiers"] if isinstance(amount, Mapping) and name in _IN_ANY_CONDITION else ():
            above.setdefault(int(tier["start"]), {})[name] = _usd(tier["price"]) / unit
    return _Rates(usd, tuple(PriceTier(above_prompt_tokens=start, **above[start]) for start in sorted(above)))


def _variants(raw: Iterable[Json], made_on: date) -> Iterator[tuple[str, PriceChange]]:
    """Prices by tier of service; of two for one, the first counts, as it does there.

    One that changes with the prompt's length as well is left out: the usual price is nearer to it than a part of it.
    """
    seen: set[str] = set()
    for variant in raw:
        ((condition, name), *more), since = variant["when"].items(), (variant.get("constraint") or {}).get("start_date")
        rates = _rates(variant["prices"])
        if more or condition not in _TIERS_OF_SERVICE or name in seen or (since or "") > made_on.isoformat():
            continue
        seen.add(name)
        changed = {it: usd for it, usd in rates.usd.items() if it in _IN_ANY_CONDITION}
        if changed and not rates.tiers:
            yield name, PriceChange(**changed)


def _said(value: Any) -> Any:
    """Without what is as it is anyway."""
    if isinstance(value, dict):
        kept = {name: _said(inner) for name, inner in value.items()}
        return {
            name: inner for name, inner in kept.items() if inner not in (None, {}, [], "") and _is_news(name, inner)
        }
    return [_said(inner) for inner in value] if isinstance(value, list) else value


def _is_news(name: str, value: Any) -> bool:
    return not (name in _NOTHING_UNSAID and value == "0")


def _clause(raw: Json) -> list[Any]:
    ((kind, wanted),) = raw.items()
    if kind in {"or", "and"}:
        return [kind, *map(_clause, wanted)]
    if kind not in CLAUSES:
        raise ValueError(f"this is no data of genai-prices: a clause `{kind}`")
    if kind == "regex":
        re.compile(wanted)
    return [kind, str(wanted)]


def _usd(amount: Any) -> Decimal:
    """The digits as they were written: JSON's numbers are floats by now, whose shortest form these are."""
    usd = Decimal(str(amount))
    if not (usd.is_finite() and usd >= 0):
        raise ValueError(f"this is no data of genai-prices: a price of {usd}")
    return usd


def _minute(time_of_day: str) -> str:
    """``16:30`` of ``16:30:00Z``."""
    found = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d):\d\d(?:Z|\+00:00)?", time_of_day)
    if found is None:
        raise ValueError(f"this is no data of genai-prices: {time_of_day} is not in UTC")
    return f"{found[1]}:{found[2]}"


def plain(value: Any) -> Any:
    """The package's objects as its JSON has them."""
    if type(value).__name__ == "ModelPrice":
        return {key: plain(price) for key, price in vars(value).items() if price is not None}
    if is_dataclass(value) and not isinstance(value, type):
        kept = {field.name.rstrip("_"): getattr(value, field.name) for field in fields(value)}
        return {name: plain(inner) for name, inner in kept.items() if inner is not None and name != "extractors"}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return str(value) if isinstance(value, date | time | Decimal) else value
