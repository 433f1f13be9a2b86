"""What a route says that time and success are worth, and by when an answer is of use."""

from msgspec import Struct


class Worth(Struct, frozen=True, kw_only=True):
    """What the route says that time and success are worth: the exchange rates into the one currency."""

    usd_per_second: float
    usd_per_success: float


class Deadline(Struct, frozen=True, kw_only=True):
    """By when a first token, and the whole answer, are of use, in seconds from the arrival; ``None`` for any time."""

    first_token_s: float | None = None
    total_s: float | None = None
