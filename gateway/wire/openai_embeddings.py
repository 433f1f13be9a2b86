"""OpenAI's ``POST /v1/embeddings``: texts or tokens in, a vector for each out. Never streamed."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw

from gateway.errors import HeadraceError, InvalidRequest, UpstreamInvalid
from gateway.types import Arrival, ChatRequest, Operation
from gateway.wire import openai_errors
from gateway.wire.format import DEFAULT_LIMITS, MAX_EVENT_BYTES, BodyLimits, Estimate, StreamView, estimate_output
from gateway.wire.json_body import decode, edit, skim
from gateway.wire.openai_completions import prompt_bytes, prompt_schema, read_prompt
from gateway.wire.openai_fields import Model
from gateway.wire.openai_usage import read_usage
from gateway.wire.openai_whole import opened
from gateway.wire.transport_fields import NAMES_ALLOWED, refuse_transport_fields
from gateway.wire.whole_look import WholeLook

MAX_INPUTS = 2048
"""OpenAI's bound."""


class _Embeddings(msgspec.Struct, kw_only=True):
    model: Model
    input: Annotated[Any, Meta(extra_json_schema=prompt_schema(minLength=1))]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1, le=2**20)] | None = None
    user: str | None = None
    stream: Annotated[bool, Meta(extra_json_schema={"const": False})] | None = None


class _Answer(msgspec.Struct):
    data: list[Raw] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None
    model: Any = None


EmbeddingsBody = Annotated[_Embeddings, Meta(extra_json_schema=dict(NAMES_ALLOWED))]
"""A body, as a document tells it."""

_EMBEDDINGS = msgspec.json.Decoder(_Embeddings)
_ANSWER = msgspec.json.Decoder(_Answer)


@dataclass(frozen=True, slots=True)
class OpenAIEmbeddings:
    """See ``Format``. The inputs are the request's ``prompt``; no token is answered, so ``max_tokens`` is zero."""

    operation: Operation = Operation.EMBEDDING

    def read(self, arrival: Arrival, body: bytes, limits: BodyLimits = DEFAULT_LIMITS) -> ChatRequest:
        """See ``Format.read``."""
        raw = skim(body, max_depth=limits.max_depth)
        refuse_transport_fields(raw)
        asked = decode(_EMBEDDINGS, body)
        if asked.stream:
            raise InvalidRequest("embeddings are never streamed", param="stream")
        prompt = read_prompt(asked.input, min(limits.max_messages, MAX_INPUTS), name="input")
        if "" in ((prompt,) if isinstance(prompt, str) else prompt):
            raise InvalidRequest("input must not hold an empty string", param="input")
        tokens = isinstance(prompt, tuple) and not isinstance(prompt[0], str)
        return ChatRequest(
            arrival=arrival,
            model=asked.model,
            prompt=prompt,
            max_tokens=0,
            needs=frozenset({"token_prompt"} if tokens else ()),
            prompt_bytes=prompt_bytes(prompt),
            unverified_user=asked.user or "",
            raw=raw,
        )

    def upstream_body(self, request: ChatRequest, model: str) -> bytes:
        """See ``Format.upstream_body``."""
        return edit(request.raw, {"model": msgspec.json.encode(model)})

    def whole(self, request: ChatRequest) -> "EmbeddingsView":  # noqa: ARG002  # the door's signature
        """See ``Format.whole``."""
        return EmbeddingsView()

    def stream(
        self, request: ChatRequest, *, max_event_bytes: int = MAX_EVENT_BYTES, estimate: Estimate = estimate_output
    ) -> StreamView:
        """There is none: a request that asks for one is refused when it is read."""
        del request, max_event_bytes, estimate
        raise UpstreamInvalid("the upstream streamed embeddings")

    def error_body(self, error: HeadraceError) -> bytes:
        """See ``Format.error_body``."""
        return openai_errors.error_body(error)

    def error_event(self, error: HeadraceError) -> bytes:
        """See ``Format.error_event``."""
        return openai_errors.error_event(error)


class EmbeddingsView(WholeLook):
    """See ``WholeView``."""

    __slots__ = ()

    def take(self, body: bytes) -> bytes:
        """See ``WholeView.take``: an answer without vectors is none."""
        answer = opened(body, _ANSWER)
        if not answer.data:
            raise UpstreamInvalid("the upstream sent an answer without vectors")
        self.usage = read_usage(answer.usage)
        self.model = answer.model if isinstance(answer.model, str) else ""
        return body


def embeddings_answer(model: str, vectors: list[Any], prompt_tokens: int) -> bytes:
    """A whole answer; a vector is a list of numbers, or the base64 of its 32-bit little-endian floats."""
    return msgspec.json.encode(
        {
            "object": "list",
            "data": [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)],
            "model": model,
            "usage": {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens},
        }
    )
