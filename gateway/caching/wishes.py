"""What a client says of caches with its request: ``Cache-Control`` of RFC 9111, section 5.2.1."""

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

_CACHE_CONTROL = b"cache-control"


class Wishes(NamedTuple):
    """An answer of at most ``max_age_s`` will do; zero for a new one. ``store`` tells whether it may be kept."""

    max_age_s: float = inf
    store: bool = True


def read_wishes(headers: Iterable[tuple[bytes, bytes]]) -> Wishes:
    """The client's wishes; what it says besides, or says wrongly, is passed over as the standard wants it."""
    max_age_s, store = inf, True
    for name, value in headers:
        if name != _CACHE_CONTROL:
            continue
        for directive in value.lower().split(b","):
            word, _, number = directive.strip().partition(b"=")
            if word in {b"no-cache", b"no-store"}:
                max_age_s, store = 0.0, store and word != b"no-store"
            elif word == b"max-age" and number.strip(b'"').isdigit():
                max_age_s = min(max_age_s, float(number.strip(b'"')))
    return Wishes(max_age_s, store)
