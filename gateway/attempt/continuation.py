"""A stream that breaks in the middle and is gone on with by another backend, where a route says ``resume``.

What a stream has sent is kept, up to a bound, until it ends. What was said becomes the assistant's last message, and
the rest of the answer goes out as the same stream.
"""

from collections.abc import Awaitable, Iterable, Sequence

from msgspec.structs import replace

from gateway.exchange import Exchange, RawHeaders, Through
from gateway.forecast import Forecast
from gateway.ports import AT_ONCE
from gateway.price import Usage
from gateway.types import Attempt, Bill, Context, Status
from gateway.wire.openai_continuation import Beginning, Seam, continued, read_beginning, together

CAPABILITY = "continue"
"""What a model must be said to be able to: go on with the assistant's last message."""

_MOST_KEPT_BYTES = 1 << 20


class Continuable(Through):
    """The exchange of the client whose request is ``ctx``'s."""

    def __init__(self, exchange: Exchange, ctx: Context) -> None:
        super().__init__(exchange)
        self._ctx = ctx
        self._beginning: Beginning | None = None
        self._broke_at = ""
        self._sent: list[bytes] = []
        self._sent_bytes = 0
        self._seam: Seam | None = None

    @property
    def resumes(self) -> bool:
        """Whether the answer has begun elsewhere, and broke."""
        return self._beginning is not None

    def rest(self, attempts: Sequence[Attempt]) -> Context | None:
        """The request for the rest of the answer, which broke in the last of ``attempts`` that the client saw any of.

        ``None`` where nobody could go on with it, or where it is too long to be kept.
        """
        if not self._exchange.streaming or self._sent_bytes > _MOST_KEPT_BYTES:
            return None
        beginning = read_beginning(b"".join(self._sent))
        used_tokens = _used(attempts).output_tokens
        ctx = self._ctx
        request = continued(ctx.request, beginning.text, used_tokens=used_tokens) if beginning is not None else None
        if request is None:
            return None
        self._beginning, self._broke_at = beginning, _seen(attempts)[-1].backend
        return replace(ctx, request=request, forecast=_rest_of(ctx.forecast, used_tokens))

    def resume(self, backend: str, attempts: Sequence[Attempt]) -> None:
        """From now on the stream is that of ``backend``, which goes on with what was said."""
        if self._beginning is not None:
            self._seam = Seam(self._beginning, backend, _used(attempts))

    def marked(self, attempts: Sequence[Attempt]) -> Sequence[Attempt]:
        """The lines for the ledger; of one that went on with an answer its words say so."""
        if self._beginning is None:
            return attempts
        words = f"went on with the answer that broke at {self._broke_at}"
        return [replace(line, detail=words) if line.status is Status.OK else line for line in attempts]

    async def open(self, status: int, headers: RawHeaders) -> None:
        """See ``Exchange.open``; a stream that goes on is open."""
        if not self._exchange.started:
            await self._exchange.open(status, headers)

    def write(self, data: bytes) -> Awaitable[None]:
        """See ``Exchange.write``."""
        if self._seam is not None:
            data = self._seam.join(data)
        if not data:
            return AT_ONCE
        self._sent_bytes += len(data)
        if self._sent_bytes <= _MOST_KEPT_BYTES:
            self._sent.append(data)
        else:
            self._sent.clear()
        return self._exchange.write(data)


def those_that_go_on(bills: Iterable[Bill]) -> list[Bill]:
    """The candidates that can go on with an answer: one that does not say so is not asked to."""
    return [bill for bill in bills if CAPABILITY in (bill.candidate.capabilities or ())]


def _seen(attempts: Iterable[Attempt]) -> list[Attempt]:
    return [attempt for attempt in attempts if attempt.status is Status.TRUNCATED]


def _used(attempts: Iterable[Attempt]) -> Usage:
    total = Usage()
    for attempt in _seen(attempts):
        total = together(total, attempt.usage or Usage())
    return total


def _rest_of(forecast: Forecast, used_tokens: int) -> Forecast:
    return replace(
        forecast,
        prompt_tokens=forecast.prompt_tokens + used_tokens,
        output_tokens_p50=max(forecast.output_tokens_p50 - used_tokens, 1),
        output_tokens_p90=max(forecast.output_tokens_p90 - used_tokens, 1),
    )
