"""Anthropic's ``POST /v1/messages/count_tokens``: how long a prompt is, without an answer to it. Never streamed."""

from dataclasses import dataclass

import msgspec

from gateway.errors import HeadraceError, UpstreamInvalid
from gateway.ports import Sink
from gateway.price import Usage
from gateway.types import Arrival, Call, ChatRequest, Finish, Operation
from gateway.wire import anthropic_errors
from gateway.wire.anthropic_request import read_counted
from gateway.wire.format import (
    BYTES_PER_TOKEN,
    DEFAULT_LIMITS,
    MAX_EVENT_BYTES,
    BodyLimits,
    Estimate,
    StreamView,
    estimate_output,
)
from gateway.wire.json_body import edit
from gateway.wire.openai_whole import opened
from gateway.wire.whole_look import WholeLook


class _Count(msgspec.Struct):
    input_tokens: int | None = None
    estimated: bool | None = None
    error: object = None
    object: object = None


_COUNT = msgspec.json.Decoder(_Count)


@dataclass(frozen=True, slots=True)
class AnthropicCount:
    """See ``Format``. No token is read or written for it, so there is nothing to account."""

    operation: Operation = Operation.COUNT_TOKENS

    def read(self, arrival: Arrival, body: bytes, limits: BodyLimits = DEFAULT_LIMITS) -> ChatRequest:
        """See ``Format.read``."""
        return read_counted(arrival, body, limits)

    def upstream_body(self, request: ChatRequest, model: str) -> bytes:
        """See ``Format.upstream_body``."""
        return edit(request.raw, {"model": msgspec.json.encode(model)})

    def whole(self, request: ChatRequest) -> "CountView":  # noqa: ARG002  # the door's signature
        """See ``Format.whole``."""
        return CountView()

    def stream(
        self, request: ChatRequest, *, max_event_bytes: int = MAX_EVENT_BYTES, estimate: Estimate = estimate_output
    ) -> StreamView:
        """There is none: a count is one answer."""
        del request, max_event_bytes, estimate
        raise UpstreamInvalid("the upstream streamed a count")

    def error_body(self, error: HeadraceError) -> bytes:
        """See ``Format.error_body``."""
        return anthropic_errors.error_body(error)

    def error_event(self, error: HeadraceError) -> bytes:
        """See ``Format.error_event``."""
        return anthropic_errors.error_event(error)


class CountView(WholeLook):
    """See ``WholeView``: a count that is only estimated makes the usage so, which the client is told in a header."""

    __slots__ = ()

    def take(self, body: bytes) -> bytes:
        """See ``WholeView.take``."""
        count = opened(body, _COUNT)
        if count.input_tokens is None:
            raise UpstreamInvalid("the upstream sent no count of tokens")
        self.usage = Usage(estimated=count.estimated is True)
        return body


def estimated_count(call: Call) -> bytes:
    """The answer of who cannot count: the forecast of the prompt, or its bytes at the usual length of a token."""
    tokens = call.expected_prompt_tokens
    return count_body(-(-call.request.prompt_bytes // BYTES_PER_TOKEN) if tokens is None else tokens, estimated=True)


async def push_whole(sink: Sink, body: bytes) -> Finish:
    """Gives a sink a whole answer that is there at once."""
    sink.begin(streamed=False)
    await sink.push(body)
    return await sink.end()


def count_body(prompt_tokens: int, *, estimated: bool = False) -> bytes:
    """The answer that says so many; one that is not exact is marked."""
    fields: dict[str, int | bool] = {"input_tokens": prompt_tokens}
    if estimated:
        fields["estimated"] = True
    return msgspec.json.encode(fields)
