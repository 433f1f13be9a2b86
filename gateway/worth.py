"""What a route says that time and success are worth, by when an answer is of use, and who goes before whom."""

from msgspec import Struct


class Worth(Struct, frozen=True, kw_only=True):
    """What the route says that time and success are worth: the exchange rates into the one currency."""

    usd_per_second: float
    usd_per_success: float


class Deadline(Struct, frozen=True, kw_only=True):
    """By when a first token, and the whole answer, are of use, in seconds from the arrival; ``None`` for any time."""

    first_token_s: float | None = None
    total_s: float | None = None


class Precedence(Struct, frozen=True, kw_only=True):
    """Who goes before whom where not all can be served: the tenant's class, and its share beside others of that class.

    ``priority`` is ``interactive``, ``standard`` or ``batch``.
    """

    priority: str = "standard"
    weight: float = 1.0
