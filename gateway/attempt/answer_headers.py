"""The headers of our answers. Only what stands here crosses: an upstream's own headers never do."""

from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import quote

from msgspec import Struct

from gateway.attempt.attempt_cost import AttemptCost
from gateway.caching.answers import KeptAnswer
from gateway.errors import HeadraceError, LimitExceeded, MethodNotAllowed, Overloaded
from gateway.exchange import HeaderLines, laid
from gateway.price import Usage
from gateway.types import OLLAMA, Arrival, Attempt, Candidate, ChatRequest, Context, Operation

RawHeader = tuple[bytes, bytes]

_ANTHROPIC = frozenset({Operation.MESSAGES, Operation.COUNT_TOKENS})

_STREAM: tuple[RawHeader, ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),  # nginx and its kin would hold a stream back until they have a buffer full
)
_LINES: tuple[RawHeader, ...] = ((b"content-type", b"application/x-ndjson"), *_STREAM[1:])
"""How Ollama streams."""
_WHOLE: tuple[RawHeader, ...] = ((b"content-type", b"application/json"),)
_OWN = b"x-request-id: %b\r\nx-headrace-forecast-tokens: %d\r\nx-headrace-attempts: %d\r\n"
"""The lines that every answer has of its own."""


class Receipt(Struct, eq=False):
    """What the client of a served answer is told in its headers, and what the attempt costs.

    Attributes:
        ctx: the request and its forecast.
        candidate: who serves it.
        cost: what the attempt costs.
        attempt: which one this is, counted from one.
        more: headers that tell of the request's limits.
    """

    ctx: Context
    candidate: Candidate
    cost: AttemptCost
    attempt: int
    more: Sequence[RawHeader] = ()

    def headers(self, usage: Usage | None, model: str = "") -> HeaderLines:
        """The headers of the answer that ``model`` gave.

        ``x-headrace-cost-usd`` is the price of this attempt: of the ``usage`` where that is known, of the forecast for
        a stream, whose headers go first; left out where no price is known. ``x-headrace-cached-tokens`` is how much of
        the prompt was remembered, where any was and the usage is known; ``x-headrace-estimated`` tells that the usage
        which the answer holds is ours and no upstream's.
        """
        arrival, forecast, candidate = self.ctx.request.arrival, self.ctx.forecast, self.candidate
        known = _known(self.ctx.request.stream, arrival.operation, candidate.backend, candidate.model)
        own, count = _OWN % (arrival.id.encode(), forecast.output_tokens_p50, self.attempt), 3
        if (
            self.more
            or arrival.operation in _ANTHROPIC
            or (usage is not None and (usage.estimated or usage.cached_tokens))
        ):
            more = self._seldom(usage)
            own, count = own + laid(more), count + len(more)
        expected = usage or Usage(
            prompt_tokens=forecast.prompt_tokens, output_tokens=forecast.output_tokens_p50, units=forecast.units
        )
        cost_usd = self.cost.of(expected, model).usd
        if cost_usd is not None:
            own, count = own + f"x-headrace-cost-usd: {cost_usd:f}\r\n".encode(), count + 1
        return HeaderLines(known, own, count)

    def _seldom(self, usage: Usage | None) -> list[RawHeader]:
        """What most answers have nothing to say of."""
        headers = [*self.more, *_own_id(self.ctx.request.arrival)]
        if usage is not None and usage.estimated:
            headers.append((b"x-headrace-estimated", b"true"))
        if usage is not None and usage.cached_tokens > 0:
            headers.append((b"x-headrace-cached-tokens", b"%d" % usage.cached_tokens))
        return headers


def dropped_header(names: Sequence[str]) -> RawHeader:
    """Tells which fields of the request were lost on the way, by leave of its route."""
    return b"x-headrace-dropped", _value(", ".join(names))


def kept_headers(ctx: Context, kept: KeptAnswer, *, age_s: float, more: Sequence[RawHeader]) -> list[RawHeader]:
    """The headers of an answer that was kept: who gave it, how old it is, and what it would cost again."""
    headers = [
        *_form(stream=ctx.request.stream, operation=ctx.request.arrival.operation),
        (b"x-request-id", ctx.request.arrival.id.encode()),
        *_who(kept.name, kept.model),
        (b"x-headrace-attempts", b"0"),
        (b"x-headrace-cost-usd", b"0"),
        (b"age", b"%d" % age_s),
        *more,
        *_own_id(ctx.request.arrival),
    ]
    if kept.dropped:
        headers.append(dropped_header(kept.dropped))
    if kept.saved_usd is not None:
        headers.append((b"x-headrace-saved-usd", f"{kept.saved_usd:f}".encode()))
    return headers


def holding_headers(request: ChatRequest) -> list[RawHeader]:
    """The headers of a stream that is opened before it is known who answers: its answer is held, and judged first."""
    return [
        *_form(stream=request.stream, operation=request.arrival.operation),
        (b"x-request-id", request.arrival.id.encode()),
        (b"x-headrace-cascade", b"held"),
    ]


def error_headers(
    request_id: str,
    error: HeadraceError,
    attempts: Sequence[Attempt] = (),
    more: Sequence[RawHeader] = (),
    *,
    arrival: Arrival | None = None,
) -> list[RawHeader]:
    """The headers of an error after ``attempts``, the last of which is named, and ``more`` of the request's limits.

    ``arrival`` is the request that failed, where it was one for inference.

    ``Retry-After`` is in whole seconds, rounded up, and there where coming back may help. Where it cannot by itself,
    though the status sounds as if it could, ``x-should-retry`` keeps the official SDKs from asking twice more.
    """
    headers = [
        *_WHOLE,
        (b"x-request-id", request_id.encode()),
        (b"x-headrace-attempts", b"%d" % len(attempts)),
        *more,
        *(_own_id(arrival) if arrival is not None else ()),
    ]
    if attempts:
        headers.extend(_who(attempts[-1].backend, attempts[-1].model))
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % max(-(-error.retry_after_s // 1), 1)))
    if error.final or (isinstance(error, LimitExceeded | Overloaded) and error.retry_after_s is None):
        headers.append((b"x-should-retry", b"false"))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", error.allow.encode()))
    if error.http_status == 401:  # noqa: PLR2004  # RFC 9110 wants a challenge with it
        headers.append((b"www-authenticate", b"Bearer"))
    return headers


def _form(*, stream: bool, operation: Operation) -> Sequence[RawHeader]:
    """What says how the answer comes: whole, as events, or as lines."""
    if not stream:
        return _WHOLE
    return _LINES if operation in OLLAMA else _STREAM


def _own_id(arrival: Arrival) -> Sequence[RawHeader]:
    """The request's name once more, under the header where clients of another API look for it."""
    return ((b"request-id", arrival.id.encode()),) if arrival.operation in _ANTHROPIC else ()


@lru_cache(maxsize=1024)
def _known(stream: bool, operation: Operation, backend: str, model: str) -> bytes:  # noqa: FBT001
    """What all answers of a backend and its model have in common."""
    return laid((*_form(stream=stream, operation=operation), *_who(backend, model)))


def _who(backend: str, model: str) -> Sequence[RawHeader]:
    """Tells who answers."""
    return (b"x-headrace-backend", _value(backend)), (b"x-headrace-model", _value(model))


def _value(text: str) -> bytes:
    """``text`` as a header value: what is not printable ASCII is percent-encoded."""
    return quote(text, safe=" !#$&'()*+,/:;<=>?@[]^`{|}~\"").encode("ascii")
