"""A price as it stands in YAML: unknown keys, amounts below zero and times that are none are refused."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar

from gateway.price import Price, PriceChange, PriceHours, PriceTier

_REFUSE_TYPING_ERRORS: Mapping[str, Any] = {"extra": "forbid"}
_UNSAID = Decimal("NaN")
_BY_TOKEN = ("input_usd_per_mtok", "output_usd_per_mtok")
_BY_UNIT = (
    "audio_input_usd_per_mtok",
    "audio_output_usd_per_mtok",
    "image_input_usd_per_mtok",
    "image_output_usd_per_mtok",
    "audio_usd_per_minute",
    "speech_usd_per_mchar",
    "search_usd",
    "document_usd",
)
_AMOUNTS = (
    "input_usd_per_mtok",
    "output_usd_per_mtok",
    "cached_input_usd_per_mtok",
    "cache_write_usd_per_mtok",
    "reasoning_usd_per_mtok",
    "request_usd",
)
_MOST_USD = 1_000_000
"""A thousand times what anybody asks for a million tokens, and small enough for sums over a ledger's lifetime."""
_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedChange(PriceChange):
    """See ``PriceChange``."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _REFUSE_TYPING_ERRORS

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTier(PriceTier):
    """See ``PriceTier``."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _REFUSE_TYPING_ERRORS

    def __post_init__(self) -> None:
        _check(self)
        if self.above_prompt_tokens < 1:
            raise ValueError("`above_prompt_tokens` must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedHours(PriceHours):
    """See ``PriceHours``."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _REFUSE_TYPING_ERRORS

    def __post_init__(self) -> None:
        _check(self)
        for name in ("from_utc", "until_utc"):
            if _TIME_OF_DAY.fullmatch(getattr(self, name)) is None:
                raise ValueError(f'`{name}` must be a time as "16:30", in quotes')


@dataclass(frozen=True, kw_only=True)
class ListedPrice(Price):
    """See ``Price``. What is paid by the piece alone needs no price for tokens."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _REFUSE_TYPING_ERRORS

    input_usd_per_mtok: Decimal = _UNSAID
    output_usd_per_mtok: Decimal = _UNSAID
    service_tiers: Mapping[str, ListedChange] = field(default_factory=dict, hash=False)
    hours: tuple[ListedHours, ...] = ()
    tiers: tuple[ListedTier, ...] = ()

    def __post_init__(self) -> None:
        unsaid = [name for name in _BY_TOKEN if getattr(self, name).is_nan()]
        if unsaid and (not self.by_units or len(unsaid) < len(_BY_TOKEN)):
            raise ValueError(f"`{unsaid[0]}` must be given")
        for name in unsaid:
            object.__setattr__(self, name, Decimal(0))
        _check(self)
        _check_each("image_usd", self.image_usd.values() if isinstance(self.image_usd, Mapping) else (self.image_usd,))
        for name in _BY_UNIT:
            _check_each(name, (getattr(self, name),))


def _check(price: Price | PriceChange) -> None:
    for name in _AMOUNTS:
        _check_each(name, (getattr(price, name),))


def _check_each(name: str, amounts: Iterable[Decimal | None]) -> None:
    for amount in amounts:
        if amount is not None and not (amount.is_finite() and 0 <= amount <= _MOST_USD):
            raise ValueError(f"`{name}` must be an amount of zero or more, at most {_MOST_USD}")
