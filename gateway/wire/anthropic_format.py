"""Anthropic's Messages as a client format: ``POST /v1/messages``."""

from dataclasses import dataclass

import msgspec

from gateway.errors import HeadraceError
from gateway.types import Arrival, ChatRequest, Operation
from gateway.wire import anthropic_errors
from gateway.wire.anthropic_request import read_messages
from gateway.wire.anthropic_stream import AnthropicStream
from gateway.wire.anthropic_whole import AnthropicWhole
from gateway.wire.format import DEFAULT_LIMITS, MAX_EVENT_BYTES, BodyLimits, Estimate, estimate_output
from gateway.wire.json_body import edit


@dataclass(frozen=True, slots=True)
class AnthropicMessages:
    """See ``Format``. Usage is always told, so nobody asks for it."""

    operation: Operation = Operation.MESSAGES

    def read(self, arrival: Arrival, body: bytes, limits: BodyLimits = DEFAULT_LIMITS) -> ChatRequest:
        """See ``Format.read``."""
        return read_messages(arrival, body, limits)

    def upstream_body(self, request: ChatRequest, model: str) -> bytes:
        """See ``Format.upstream_body``."""
        return edit(request.raw, {"model": msgspec.json.encode(model)})

    def whole(self, request: ChatRequest) -> AnthropicWhole:  # noqa: ARG002  # the door's signature
        """See ``Format.whole``."""
        return AnthropicWhole()

    def stream(
        self,
        request: ChatRequest,  # noqa: ARG002  # the door's signature
        *,
        max_event_bytes: int = MAX_EVENT_BYTES,
        estimate: Estimate = estimate_output,
    ) -> AnthropicStream:
        """See ``Format.stream``."""
        return AnthropicStream(max_event_bytes=max_event_bytes, estimate=estimate)

    def error_body(self, error: HeadraceError) -> bytes:
        """See ``Format.error_body``."""
        return anthropic_errors.error_body(error)

    def error_event(self, error: HeadraceError) -> bytes:
        """See ``Format.error_event``."""
        return anthropic_errors.error_event(error)
