"""How long an upstream asks us to wait: the ``Retry-After`` header of RFC 9110, section 10.2.3, in both its forms."""

import re
from collections.abc import Iterable
from datetime import UTC
from email.utils import parsedate_to_datetime

_LONGEST = 64
"""No honest value is longer; a longer one is not worth a parser's time."""

_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)


def read_retry_after(values: Iterable[str], *, now_unix_s: float, cap_s: float) -> float | None:
    """Seconds to wait, from 0 to ``cap_s``; ``None`` where the upstream said nothing that can be understood.

    Args:
        values: each ``Retry-After`` header of the response. Of several the longest counts: a wait is a minimum.
        now_unix_s: the time that a date is compared with. A date in the past is no wait.
        cap_s: what a typing error of the upstream's may cost us at most.
    """
    waits = [wait for value in values if (wait := _read(value.strip(), now_unix_s)) is not None]
    return min(max(*waits, 0.0), cap_s) if waits else None


def _read(value: str, now_unix_s: float) -> float | None:
    if len(value) > _LONGEST:
        return None
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):  # what the parser raises on junk
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)  # an HTTP date is always in GMT, also in the form that does not say so
    return moment.timestamp() - now_unix_s
