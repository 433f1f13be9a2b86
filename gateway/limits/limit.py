"""What is limited, for whom, and over which time."""

from dataclasses import dataclass
from datetime import tzinfo
from enum import StrEnum

from msgspec import Struct

from gateway.limits.calendar import Period, Window

NANO = 1_000_000_000
"""Money is counted in billionths of a US dollar: whole numbers add up exactly, and 2^53 of them are nine millions."""

FOREVER = Window(0, 2**52)
"""The window of what is held and given back, and never used up."""


class Measure(StrEnum):
    """What is counted."""

    REQUESTS = "requests"
    INPUT_TOKENS = "input_tokens"
    OUTPUT_TOKENS = "output_tokens"
    TOKENS = "tokens"
    USD = "usd"
    CONCURRENT = "concurrent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """So much of a measure in a period; of ``concurrent`` so much at any time, without a period.

    ``scope`` says whose it is (``tenant:acme``), ``amount`` is in the measure's unit, USD in ``NANO``. ``zone`` is the
    place whose calendar the period is counted on. ``priced_only`` keeps requests from where no price is known: what
    cannot be counted would be spent beside the limit.
    """

    scope: str
    measure: Measure
    amount: int
    period: Period | None
    zone: tzinfo
    priced_only: bool = False

    @property
    def name(self) -> str:
        """Its name among all limits, the same on every replica. The amount is no part of it: it may be changed."""
        return f"{self.scope}/{self.measure}/{self.period or 'now'}"

    def window(self, unix_s: float) -> Window:
        """The window that a moment lies in."""
        return FOREVER if self.period is None else self.period.window(unix_s, self.zone)


class Claim(Struct, frozen=True):
    """What a request or an attempt is expected to take, or took: an amount of each measure."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    nano_usd: int = 0
    concurrent: int = 0

    def of(self, measure: Measure) -> int:
        """The amount of one measure."""
        if measure is Measure.TOKENS:
            return self.input_tokens + self.output_tokens
        return int(getattr(self, _FIELDS[measure]))


_FIELDS = {measure: measure.value for measure in Measure} | {Measure.USD: "nano_usd"}
