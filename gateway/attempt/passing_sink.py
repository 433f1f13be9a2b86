"""The client's side of an attempt whose answer goes on as it came: JSON, events, text, or sound."""

from collections.abc import Coroutine, Sequence
from typing import Any

from msgspec import field

from gateway.attempt.sink import ClientSink, HeadersFor, Pace
from gateway.errors import UpstreamInvalid
from gateway.exchange import RawHeaders
from gateway.price import Usage
from gateway.types import Finish
from gateway.wire.passed_views import PassedBytes, PassedText

_EVENTS = "text/event-stream"
_PAGE = "text/html"
_BYTES = "application/octet-stream"
_TEXTS = ("text/", "application/x-subrip", "application/srt", "application/ttml")
_MOST_HEADER_CHARACTERS = 512


class PassingSink(ClientSink, kw_only=True, eq=False):
    """See ``gateway.ports.PassingSink``; the attributes are those of ``ClientSink``.

    What there is to read is looked at when it is whole, events one by one. Everything else is a stream of bytes: it has
    begun with its first one, and ends with the connection, so that only the upstream's framing tells that it is all.
    """

    _passed: list[tuple[bytes, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.headers = _under(self.headers, self._passed)
        self.pace = _Unseen(self.pace)

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
            self._stream = self.wire.stream(self.request, max_event_bytes=self.bounds.max_event_bytes)
        elif kind.startswith(_TEXTS):
            self._whole_view = PassedText(self.request)
        elif kind != "application/json" and not kind.endswith("+json"):
            self._stream = PassedBytes(self.request)

    def end(self) -> Coroutine[Any, Any, Finish]:
        """See ``Sink.end``."""
        if self._stream is None and self._whole_view is not None:
            return self._end_whole(self._whole_view)
        return super().end()


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
