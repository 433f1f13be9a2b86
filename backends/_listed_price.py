"""A price as it stands in YAML: unknown keys, amounts below zero and times that are none are refused."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gateway.price import Price, PriceChange, PriceHours, PriceTier

_REFUSE_TYPING_ERRORS: Mapping[str, Any] = {"extra": "forbid"}
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
    """See ``Price``."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = _REFUSE_TYPING_ERRORS

    service_tiers: Mapping[str, ListedChange] = field(default_factory=dict, hash=False)
    hours: tuple[ListedHours, ...] = ()
    tiers: tuple[ListedTier, ...] = ()

    def __post_init__(self) -> None:
        _check(self)


def _check(price: Price | PriceChange) -> None:
    for name in _AMOUNTS:
        amount = getattr(price, name)
        if amount is not None and not (amount.is_finite() and 0 <= amount <= _MOST_USD):
            raise ValueError(f"`{name}` must be an amount of zero or more, at most {_MOST_USD}")
