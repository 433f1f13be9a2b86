"""What OpenAI's chat and completion endpoints have in common, which is all but the reading of the body."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from gateway.conversation import prompt_count
from gateway.errors import HeadraceError
from gateway.types import Arrival, ChatRequest, Operation
from gateway.wire import openai_errors
from gateway.wire.format import DEFAULT_LIMITS, MAX_EVENT_BYTES, BodyLimits, Estimate, estimate_output
from gateway.wire.json_body import edit
from gateway.wire.openai_answer import StreamWriter
from gateway.wire.openai_fields import Fields
from gateway.wire.openai_stream import OpenAIStream
from gateway.wire.openai_whole import OpenAIWhole

_FIELDS = msgspec.json.Decoder(Fields)
_CONTINUOUS = b'"continuous_usage_stats"'
_USAGE_ONLY = b'{"include_usage":true}'


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIFormat:
    """One endpoint of OpenAI's; see ``Format``."""

    operation: Operation
    reader: Callable[[Arrival, bytes, BodyLimits], ChatRequest]

    def read(self, arrival: Arrival, body: bytes, limits: BodyLimits = DEFAULT_LIMITS) -> ChatRequest:
        """See ``Format.read``."""
        return self.reader(arrival, body, limits)

    def upstream_body(self, request: ChatRequest, model: str) -> bytes:
        """See ``Format.upstream_body``. The other stream options of the client survive."""
        changes: dict[str, bytes | None] = {"model": msgspec.json.encode(model)}
        if request.stream and not request.include_usage:
            given = request.raw.get("stream_options")
            options = None if given is None or bytes(given) == b"null" else _FIELDS.decode(given)
            changes["stream_options"] = edit(options, {"include_usage": b"true"}) if options else _USAGE_ONLY
        return edit(request.raw, changes)

    def whole(self, request: ChatRequest) -> OpenAIWhole:  # noqa: ARG002  # the door's signature
        """See ``Format.whole``."""
        return OpenAIWhole()

    def stream(
        self, request: ChatRequest, *, max_event_bytes: int = MAX_EVENT_BYTES, estimate: Estimate = estimate_output
    ) -> OpenAIStream:
        """See ``Format.stream``. Each prompt has ``n`` choices of its own."""

        def uncounted(answer_id: str, model: str, created_unix_s: int, output_bytes: int) -> bytes:
            writer = StreamWriter(self.operation, answer_id or request.arrival.id, model, created_unix_s)
            return writer.usage(estimate(output_bytes))

        return OpenAIStream(
            choices=request.n * prompt_count(request.prompt),
            include_usage=request.include_usage,
            max_event_bytes=max_event_bytes,
            uncounted=uncounted,
            continuous=request.include_usage and _CONTINUOUS in bytes(request.raw.get("stream_options", b"")),
        )

    def error_body(self, error: HeadraceError) -> bytes:
        """See ``Format.error_body``."""
        return openai_errors.error_body(error)

    def error_event(self, error: HeadraceError) -> bytes:
        """See ``Format.error_event``."""
        return openai_errors.error_event(error)
