"""The client's side of an attempt whose answer goes on as it came: JSON, events, text, or sound."""

from collections.abc import Sequence

from gateway.attempt.sink import AnswerBounds, ClientSink, HeadersFor, Pace
from gateway.errors import UpstreamInvalid
from gateway.exchange import Exchange, RawHeaders
from gateway.ports import Clock
from gateway.price import Usage
from gateway.types import ChatRequest, Finish
from gateway.wire.format import Estimate, Format, estimate_output
from gateway.wire.passed_views import PassedBytes, PassedText

_EVENTS = "text/event-stream"
_PAGE = "text/html"
_BYTES = "application/octet-stream"
_TEXTS = ("text/", "application/x-subrip", "application/srt", "application/ttml")
_MOST_HEADER_CHARACTERS = 512


class PassingSink(ClientSink):
    """See ``gateway.ports.PassingSink``; the arguments are those of ``ClientSink``.

    What there is to read is looked at when it is whole, events one by one. Everything else is a stream of bytes: it has
    begun with its first one, and ends with the connection, so that only the upstream's framing tells that it is all.
    """

    __slots__ = ("_passed",)

    def __init__(
        self,
        *,
        request: ChatRequest,
        wire: Format,
        exchange: Exchange,
        clock: Clock,
        headers: HeadersFor,
        pace: Pace,
        bounds: AnswerBounds,
        estimate: Estimate = estimate_output,
    ) -> None:
        self._passed: list[tuple[bytes, bytes]] = []
        super().__init__(
            request=request,
            wire=wire,
            exchange=exchange,
            clock=clock,
            headers=_under(headers, self._passed),
            pace=_Unseen(pace),
            bounds=bounds,
            estimate=estimate,
        )

    def begin(self, *, streamed: bool) -> None:
        """See ``Sink.begin``: what is no stream is JSON."""
        self.pass_on([("content-type", _EVENTS if streamed else "application/json")])

    def pass_on(self, headers: Sequence[tuple[str, str]]) -> None:
        """See ``PassingSink.pass_on``."""
        self.begun = True
        kept = {name: value for name, value in headers if _may_go_on(value)}
        content_type = kept.setdefault("content-type", _BYTES)
        self._passed[:] = [(name.encode(), value.encode()) for name, value in kept.items()]
        kind = content_type.partition(";")[0].strip().lower()
        if kind == _PAGE:
            raise UpstreamInvalid("the upstream answered with a page for people")
        if kind == _EVENTS:
            self._stream = self._wire.stream(self._request, max_event_bytes=self._bounds.max_event_bytes)
        elif kind.startswith(_TEXTS):
            self._whole_view = PassedText(self._request)
        elif kind != "application/json" and not kind.endswith("+json"):
            self._stream = PassedBytes(self._request)

    async def end(self) -> Finish:
        """See ``Sink.end``."""
        if self._stream is None and self._whole_view is not None:
            return await self._end_whole(self._whole_view)
        return await super().end()


class _Unseen:
    """A pace that is told of no first token: when sound or a picture comes says nothing of how a backend reads text."""

    __slots__ = ("_pace",)

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    def waits_for_client(self, first_token_s: float | None) -> None:
        """See ``Pace``."""
        del first_token_s
        self._pace.waits_for_client(None)

    def waits_for_upstream(self) -> None:
        """See ``Pace``."""
        self._pace.waits_for_upstream()


def _under(headers: HeadersFor, passed: Sequence[tuple[bytes, bytes]]) -> HeadersFor:
    """Our own headers, with those of the upstream's answer in the place of what we would say of it."""

    def both(usage: Usage | None, model: str) -> RawHeaders:
        theirs = {name for name, _ in passed}
        return [*passed, *(header for header in headers(usage, model) if header[0] not in theirs)]

    return both


def _may_go_on(value: str) -> bool:
    """Whether a header has a value that every client can be given."""
    return 0 < len(value) <= _MOST_HEADER_CHARACTERS and value.isascii() and value.isprintable()
