"""OpenAI's Responses, both directions."""

from dataclasses import dataclass
from typing import ClassVar

import msgspec

from gateway.errors import HeadraceError
from gateway.types import Arrival, ChatRequest, Operation
from gateway.wire import openai_errors
from gateway.wire.format import DEFAULT_LIMITS, MAX_EVENT_BYTES, BodyLimits, Estimate, estimate_output
from gateway.wire.json_body import edit
from gateway.wire.responses_request import read_response_request
from gateway.wire.responses_views import ResponsesStream, ResponsesWhole


class _Numbered(msgspec.Struct):
    sequence_number: int = -1


_NUMBERED = msgspec.json.Decoder(_Numbered)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesFormat:
    """See ``Format``."""

    operation: ClassVar[Operation] = Operation.RESPONSE

    def read(self, arrival: Arrival, body: bytes, limits: BodyLimits = DEFAULT_LIMITS) -> ChatRequest:
        """See ``Format.read``."""
        return read_response_request(arrival, body, limits)

    def upstream_body(self, request: ChatRequest, model: str) -> bytes:
        """See ``Format.upstream_body``. Counts come without being asked for."""
        return edit(request.raw, {"model": msgspec.json.encode(model)})

    def whole(self, request: ChatRequest) -> ResponsesWhole:
        """See ``Format.whole``."""
        return ResponsesWhole(request)

    def stream(
        self,
        request: ChatRequest,
        *,
        max_event_bytes: int = MAX_EVENT_BYTES,
        estimate: Estimate = estimate_output,  # noqa: ARG002  # the door's signature: the writer has estimated already
    ) -> ResponsesStream:
        """See ``Format.stream``."""
        return ResponsesStream(request, max_event_bytes=max_event_bytes)

    def error_body(self, error: HeadraceError) -> bytes:
        """See ``Format.error_body``."""
        return openai_errors.error_body(error)

    def error_event(self, error: HeadraceError, *, last: bytes = b"") -> bytes:
        """See ``Format.error_event``. The words stand at the top of this event, not in an envelope.

        ``last`` is the event before it, empty where there is none: this one has the next number.
        """
        words = msgspec.json.decode(openai_errors.error_body(error))["error"]
        event = {**words, "type": "error", "sequence_number": _number_of(last) + 1}
        return b"event: error\ndata: %b\n\n" % msgspec.json.encode(event)


def _number_of(event: bytes) -> int:
    """The number of an event, one less than zero where it has none: an upstream wrote it."""
    try:
        return _NUMBERED.decode(event).sequence_number if event else -1
    except (msgspec.DecodeError, RecursionError):
        return -1
