"""The headers by which clients see their limits: OpenAI's names, which its libraries know."""

from collections.abc import Iterable, Sequence

from gateway.limits.allowance import Allowance
from gateway.limits.limit import Measure

RawHeader = tuple[bytes, bytes]

_KINDS = {
    b"requests": (Measure.REQUESTS,),
    b"tokens": (Measure.TOKENS, Measure.INPUT_TOKENS, Measure.OUTPUT_TOKENS),
}


def rate_headers(allowances: Sequence[Allowance], *, unix_s: float) -> tuple[RawHeader, ...]:
    """``x-ratelimit-limit-…``, ``-remaining-…`` and ``-reset-…`` for requests and for tokens.

    Of several limits of a kind, the one of which least is left in proportion speaks. What is left counts what is
    reserved as taken. ``reset`` is how long its window still takes, as in ``1m30s``.
    """
    headers: list[RawHeader] = []
    for kind, measures in _KINDS.items():
        known = [one for one in allowances if one.limit.measure in measures]
        if known:
            headers += _of(kind, min(known, key=lambda one: one.left / max(one.limit.amount, 1)), unix_s)
    return tuple(headers)


def _of(kind: bytes, tightest: Allowance, unix_s: float) -> Iterable[RawHeader]:
    yield b"x-ratelimit-limit-" + kind, b"%d" % tightest.limit.amount
    yield b"x-ratelimit-remaining-" + kind, b"%d" % tightest.left
    yield b"x-ratelimit-reset-" + kind, _duration(max(tightest.window.end_unix_s - unix_s, 0.0)).encode()


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if not whole:
        return f"{int(seconds * 1000)}ms"
    parts = ((whole // 3600, "h"), (whole % 3600 // 60, "m"), (whole % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)
