"""One look at an answer of OpenAI's Responses, streamed or whole, as its bytes pass."""

import re
from typing import Any

import msgspec

from gateway.conversation import LastEvent
from gateway.errors import UpstreamError, UpstreamInvalid, UpstreamTruncated
from gateway.price import Usage
from gateway.types import ChatRequest
from gateway.wire.openai_fields import text_bytes
from gateway.wire.openai_whole import opened
from gateway.wire.responses_object import hub_reason, read_response_usage
from gateway.wire.sse import SseEvent, SseParser, frame
from gateway.wire.upstream_codes import error_inside
from gateway.wire.upstream_json import objects, text_of

_SHOWS = b".delta"
_ENDS = frozenset({b"response.completed", b"response.incomplete"})
_FAILS = frozenset({b"response.failed", b"error"})
_NO_PREVIOUS = re.compile(rb'"previous_response_id":\s*null')
"""Inside a text its quotes would be escaped."""
_ENVELOPE_BYTES = 200
"""About what an event of a delta holds besides its text."""


class _Kind(msgspec.Struct):
    type: Any = None


class _Response(msgspec.Struct):
    status: Any = None
    model: Any = None
    error: Any = None
    object: Any = None
    usage: Any = None
    output: Any = None
    incomplete_details: Any = None


class _Ended(msgspec.Struct):
    response: msgspec.Raw = msgspec.Raw(b"null")


_KIND = msgspec.json.Decoder(_Kind)
_ENDED = msgspec.json.Decoder(_Ended)
_RESPONSE = msgspec.json.Decoder(_Response)


class _Look:
    """What both have in common; ``request`` says who keeps the answer."""

    def __init__(self, request: ChatRequest) -> None:
        self.usage: Usage | None = None
        self.finish_reason = ""
        self.model = ""
        self.output_bytes = 0
        self._request = request
        remembered = request.remembered
        self._previous_id = remembered.previous_id.encode() if remembered is not None else b""
        self._last = remembered.last if remembered is not None else LastEvent()

    def _told(self, data: bytes) -> bytes:
        """With the name of the answer that this one goes on from: its upstream was given all turns instead."""
        if not self._previous_id:
            return data
        return _NO_PREVIOUS.sub(b'"previous_response_id":"%b"' % self._previous_id, data, count=1)

    def _take_response(self, body: bytes) -> None:
        """A finished response.

        Raises:
            UpstreamInvalid: it is none, or not finished.
            UpstreamError: it failed.
        """
        response = opened(body, _RESPONSE)
        if response.object != "response" or text_of(response.status) not in {"completed", "incomplete"}:
            raise UpstreamInvalid("the upstream sent an answer that is no finished response")
        self.model = response.model if isinstance(response.model, str) else ""
        usage = read_response_usage(response.usage)
        self.usage = None if usage is None or usage.estimated else usage
        self.finish_reason = hub_reason(
            {
                "status": response.status,
                "output": response.output,
                "incomplete_details": response.incomplete_details,
            }
        )
        self.output_bytes = max(self.output_bytes, _shown_bytes(response.output))
        remembered = self._request.remembered
        if remembered is not None and remembered.keep is not None:
            remembered.keep(body)


class ResponsesWhole(_Look):
    """See ``WholeView``."""

    def take(self, body: bytes) -> bytes:
        """See ``WholeView.take``."""
        body = self._told(body)
        self._take_response(body)
        return body


class ResponsesStream(_Look):
    """See ``StreamView``. Of the events only the last is parsed: it holds the whole response again.

    Args:
        request: what is answered.
        max_event_bytes: the longest event that is let through.
    """

    def __init__(self, request: ChatRequest, *, max_event_bytes: int) -> None:
        super().__init__(request)
        self.visible = False
        self.done = False
        self.error: UpstreamError | None = None
        self._began = False
        self._parser = SseParser(max_event_bytes)

    def feed(self, data: bytes) -> bytes:
        """See ``StreamView.feed``."""
        return b"".join([self._event(event) for event in self._parser.feed(data)])

    def end(self) -> bytes:
        """See ``StreamView.end``."""
        if self.done or self.error is not None:
            return b""
        if not self._began and not self._parser.partial:
            raise UpstreamInvalid("the upstream closed its stream without an answer")
        raise UpstreamTruncated("the upstream closed its stream before the answer was complete")

    def _event(self, event: SseEvent) -> bytes:
        data = event.data
        if self.done or self.error is not None or not data or data.strip() == b"[DONE]":
            return b""
        name = event.event or _kind(data)
        if not data.rstrip().endswith(b"}"):
            raise UpstreamInvalid("the upstream sent an event that was cut short")
        self._began = True
        data = self._told(data)
        if name in _FAILS:
            self.error = _failure(name, data)
            return b""
        if name in _ENDS:
            self._end(data)
        elif name.endswith(_SHOWS):
            self.visible = True
            self.output_bytes += max(len(data) - _ENVELOPE_BYTES, 1)
        self._last.data = data
        return frame(data, name)

    def _end(self, data: bytes) -> None:
        self.output_bytes = 0
        self._take_response(_response(data))
        self.visible = self.done = True


def _response(data: bytes) -> bytes:
    """The response inside an event.

    Raises:
        UpstreamInvalid: the event is none.
    """
    try:
        return bytes(_ENDED.decode(data).response)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UpstreamInvalid("the upstream sent an event that is no part of an answer") from error


def _failure(name: bytes, data: bytes) -> UpstreamError:
    """The error of either shape: an event of its own, or a response that failed."""
    inner = data if name == b"error" else _response(data)
    return error_inside(inner, "the upstream reported an error inside its stream")


def _kind(data: bytes) -> bytes:
    """The type that an event without a name has inside.

    Raises:
        UpstreamInvalid: it has none.
    """
    try:
        kind = _KIND.decode(data).type
    except (msgspec.DecodeError, RecursionError) as error:
        raise UpstreamInvalid("the upstream sent an event that is no part of an answer") from error
    if not isinstance(kind, str):
        raise UpstreamInvalid("the upstream sent an event without a type")
    return kind.encode()


def _shown_bytes(output: Any) -> int:
    """The length of what the items show."""
    shown = 0
    for item in output if isinstance(output, list) else ():
        if isinstance(item, dict):
            parts = [*objects(item.get("content")), *objects(item.get("summary")), item]
            texts = [part.get(name) for part in parts for name in ("text", "refusal", "arguments", "input")]
            shown += sum(text_bytes(text) for text in texts if isinstance(text, str))
    return shown
