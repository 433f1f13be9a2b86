"""What a price is under a condition: a long prompt, an hour of the day."""

from dataclasses import dataclass
from decimal import Decimal

_SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceChange:
    """What is otherwise under a condition; what is left out stays as it is."""

    input_usd_per_mtok: Decimal | None = None
    output_usd_per_mtok: Decimal | None = None
    cached_input_usd_per_mtok: Decimal | None = None
    cache_write_usd_per_mtok: Decimal | None = None
    reasoning_usd_per_mtok: Decimal | None = None
    request_usd: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTier(PriceChange):
    """What all tokens of a request cost whose prompt is longer than ``above_prompt_tokens``."""

    above_prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceHours(PriceChange):
    """What holds at a time of the day, from ``HH:MM`` to before ``HH:MM`` in UTC, over midnight too."""

    from_utc: str
    until_utc: str

    def holds(self, unix_s: float) -> bool:
        """Whether it is that time."""
        now_s, from_s, until_s = unix_s % _SECONDS_PER_DAY, _second(self.from_utc), _second(self.until_utc)
        return from_s <= now_s < until_s if from_s <= until_s else now_s >= from_s or now_s < until_s


def _second(time_of_day: str) -> int:
    """``HH:MM`` as seconds after midnight."""
    hours, minutes = time_of_day.split(":")
    return int(hours) * 3600 + int(minutes) * 60
