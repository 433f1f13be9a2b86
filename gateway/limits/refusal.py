"""What a client is told when a limit refuses: whose it is, how much it is, and when to come back."""

from datetime import datetime

from gateway.errors import HeadraceError, LimitExceeded, Overloaded
from gateway.limits.allowance import Allowance
from gateway.limits.limit import NANO, Limit, Measure

_OURS = ("model:", "backend:")
"""Scopes that are nobody's own limit: who meets them did nothing wrong."""
_SOONEST_S = 1.0
_RESERVED_S = 5.0
"""When to come back where requests under way have reserved what is missing, and will hardly use all of it."""

_LENT_S = 2.0
"""When to come back where other replicas have borrowed what is missing: they tell how they stand once a second."""

_UNITS = {
    Measure.REQUESTS: ("request", "requests"),
    Measure.INPUT_TOKENS: ("prompt token", "prompt tokens"),
    Measure.OUTPUT_TOKENS: ("answer token", "answer tokens"),
    Measure.TOKENS: ("token", "tokens"),
    Measure.CONCURRENT: ("request at a time", "requests at a time"),
}


def refusal(allowance: Allowance, amount: int, *, unix_s: float) -> HeadraceError:
    """The error of a limit that refused ``amount``.

    429 for the tenant's own, 503 for one of ours. ``retry_after_s`` is when its window ends, which the words tell with
    the offset of the limit's own place; a few seconds where what is missing is only reserved, of tokens or of money, or
    only lent to another replica, which gives back what it does not use; there is none where not even a fresh window
    would suffice, for coming back cannot help then.
    """
    limit = allowance.limit
    kind = Overloaded if limit.scope.startswith(_OURS) else LimitExceeded
    if amount > limit.amount:
        return kind(f"{words(limit)}, and this request alone is expected to take {_said(limit.measure, amount)}")
    if limit.period is None:
        return kind(f"{words(limit)}, which are under way", retry_after_s=_SOONEST_S)
    wait_s = max(allowance.window.end_unix_s - unix_s, _SOONEST_S)
    left, needed = _said(limit.measure, allowance.left), _said(limit.measure, amount)
    if amount <= limit.amount - allowance.others_taken - allowance.taken:
        lent = f"{left} left beside what other replicas have borrowed, and this request may take {needed}"
        return kind(f"{words(limit)}: {lent}", retry_after_s=min(wait_s, _LENT_S))
    if limit.measure is not Measure.REQUESTS and amount <= limit.amount - allowance.others_spent - allowance.spent:
        reserved = f"{left} left beside what requests under way have reserved, and this request may take {needed}"
        return kind(f"{words(limit)}: {reserved}", retry_after_s=min(wait_s, _RESERVED_S))
    until = datetime.fromtimestamp(allowance.window.end_unix_s, limit.zone).isoformat()
    return kind(f"{words(limit)}: {left} left until {until}, and this request may take {needed}", retry_after_s=wait_s)


def unpriced(limit: Limit) -> HeadraceError:
    """The error of a limit in US dollars where nobody says what serving the request costs. No waiting helps."""
    kind = Overloaded if limit.scope.startswith(_OURS) else LimitExceeded
    return kind(f"{words(limit)}, and no price is known for what could serve this request")


def words(limit: Limit) -> str:
    """The limit as somebody says it."""
    per = "" if limit.period is None else f" per {limit.period}"
    kind, _, name = limit.scope.partition(":")
    return f"the limit of {kind} `{name}` is {_said(limit.measure, limit.amount)}{per}"


def _said(measure: Measure, amount: int) -> str:
    if measure is Measure.USD:
        return f"${amount / NANO:,.4f}"
    unit, plural = _UNITS[measure]
    return f"1 {unit}" if amount == 1 else f"{amount:,} {plural}"
