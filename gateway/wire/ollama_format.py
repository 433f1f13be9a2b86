"""What Ollama's chat and generate endpoints have in common, which is all but the reading of the body."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from gateway.errors import HeadraceError
from gateway.types import Arrival, ChatRequest, Operation
from gateway.wire import ollama_errors
from gateway.wire.format import DEFAULT_LIMITS, MAX_EVENT_BYTES, BodyLimits, Estimate, estimate_output
from gateway.wire.json_body import edit
from gateway.wire.ollama_stream import OllamaStream
from gateway.wire.ollama_turns import refuse_other_spellings
from gateway.wire.ollama_whole import OllamaWhole

CAPABILITIES: Mapping[str, str] = MappingProxyType(
    {"audio": "audio", "insert": "suffix", "tools": "tools", "vision": "vision"}
)
"""Ollama's words for what a model can do, and ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaFormat:
    """One endpoint of Ollama's; see ``Format``. Counts come without being asked for."""

    operation: Operation
    reader: Callable[[Arrival, bytes, BodyLimits], ChatRequest]

    def read(self, arrival: Arrival, body: bytes, limits: BodyLimits = DEFAULT_LIMITS) -> ChatRequest:
        """See ``Format.read``."""
        return self.reader(arrival, body, limits)

    def upstream_body(self, request: ChatRequest, model: str) -> bytes:
        """See ``Format.upstream_body``."""
        if self.operation is Operation.OLLAMA_CHAT and "messages" in request.raw:
            refuse_other_spellings(request.raw["messages"])
        return edit(request.raw, {"model": msgspec.json.encode(model)})

    def whole(self, request: ChatRequest) -> OllamaWhole:  # noqa: ARG002  # the door's signature
        """See ``Format.whole``."""
        return OllamaWhole()

    def stream(
        self,
        request: ChatRequest,  # noqa: ARG002  # the door's signature
        *,
        max_event_bytes: int = MAX_EVENT_BYTES,
        estimate: Estimate = estimate_output,  # noqa: ARG002  # the door's signature: the writer has estimated already
    ) -> OllamaStream:
        """See ``Format.stream``."""
        return OllamaStream(max_line_bytes=max_event_bytes)

    def error_body(self, error: HeadraceError) -> bytes:
        """See ``Format.error_body``."""
        return ollama_errors.error_body(error)

    def error_event(self, error: HeadraceError) -> bytes:
        """See ``Format.error_event``: a line."""
        return ollama_errors.error_line(error)
