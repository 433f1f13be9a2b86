"""Ollama's ``POST /api/embed``, and ``POST /api/embeddings`` before it: texts in, a vector for each out.

Both ways: a client's body becomes OpenAI's where the backend speaks that, and the answer comes back by way of deltas.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from gateway.conversation import Prompt, Translation
from gateway.errors import HeadraceError, InvalidRequest, UpstreamInvalid
from gateway.types import Arrival, ChatRequest, Operation
from gateway.wire import ollama_errors
from gateway.wire.format import DEFAULT_LIMITS, MAX_EVENT_BYTES, BodyLimits, Estimate, StreamView, estimate_output
from gateway.wire.json_body import decode, edit, opened_fields, skim
from gateway.wire.ollama_counts import read_counts
from gateway.wire.ollama_options import Options, lost_options
from gateway.wire.ollama_request import plain_name
from gateway.wire.openai_completions import prompt_bytes
from gateway.wire.openai_embeddings import MAX_INPUTS
from gateway.wire.openai_fields import Model, Name
from gateway.wire.transport_fields import refuse_transport_fields
from gateway.wire.upstream_codes import error_inside
from gateway.wire.upstream_json import opened_object, text_at
from gateway.wire.whole_look import WholeLook

_KEPT = frozenset({"keep_alive", "truncate"})
_DRAWN = frozenset(Options.__struct_fields__)
"""Options that say how tokens are drawn, of which an embedding has none."""
_ENCODE = msgspec.json.Encoder().encode
_NOTHING: tuple[Any, ...] = (None, "", [], {}, False)


class _Asked(msgspec.Struct, kw_only=True):
    model: Model
    options: Options | None = None
    keep_alive: float | str | None = None


class OllamaEmbedBody(_Asked, kw_only=True):
    """What ``/api/embed`` takes."""

    input: str | tuple[Name, ...] | None = None
    dimensions: Annotated[int, Meta(ge=0, le=2**20)] | None = None
    truncate: bool | None = None


class OllamaEmbeddingsBody(_Asked, kw_only=True):
    """What ``/api/embeddings`` takes."""

    prompt: str | None = None


_EMBED = msgspec.json.Decoder(OllamaEmbedBody)
_EMBEDDINGS = msgspec.json.Decoder(OllamaEmbeddingsBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaEmbeddings:
    """See ``Format``. ``text_field`` is where the texts stand; the older endpoint takes one, and answers one vector."""

    operation: Operation
    text_field: str

    def read(self, arrival: Arrival, body: bytes, limits: BodyLimits = DEFAULT_LIMITS) -> ChatRequest:
        """See ``Format.read``. One without a text asks for the model to be loaded."""
        raw = skim(body, max_depth=limits.max_depth)
        refuse_transport_fields(raw)
        model, prompt = self._asked(body)
        most = min(limits.max_messages, MAX_INPUTS)
        if len(prompt) > most and not isinstance(prompt, str):
            raise InvalidRequest(f"input must hold at most {most} inputs", param="input")
        return ChatRequest(
            arrival=arrival,
            model=plain_name(model),
            prompt=prompt,
            max_tokens=0,
            prompt_bytes=prompt_bytes(prompt),
            raw=raw,
            translation=cache(partial(_translated, raw, prompt, self.text_field)),
        )

    def _asked(self, body: bytes) -> tuple[str, Prompt]:
        """The model, and what to embed."""
        if self.text_field == "input":
            texts = decode(_EMBED, body)
            return texts.model, texts.input or ""
        text = decode(_EMBEDDINGS, body)
        return text.model, text.prompt or ""

    def upstream_body(self, request: ChatRequest, model: str) -> bytes:
        """See ``Format.upstream_body``."""
        return edit(request.raw, {"model": msgspec.json.encode(model)})

    def whole(self, request: ChatRequest) -> "VectorsView":  # noqa: ARG002  # the door's signature
        """See ``Format.whole``."""
        return VectorsView()

    def stream(
        self, request: ChatRequest, *, max_event_bytes: int = MAX_EVENT_BYTES, estimate: Estimate = estimate_output
    ) -> StreamView:
        """There is none."""
        del request, max_event_bytes, estimate
        raise UpstreamInvalid("the upstream streamed embeddings")

    def error_body(self, error: HeadraceError) -> bytes:
        """See ``Format.error_body``."""
        return ollama_errors.error_body(error)

    def error_event(self, error: HeadraceError) -> bytes:
        """See ``Format.error_event``."""
        return ollama_errors.error_line(error)


def _translated(raw: Mapping[str, Raw], prompt: Prompt, text_field: str) -> Translation:
    """The body ``raw`` as one of OpenAI's for embeddings."""
    given = opened_fields(raw, [name for name in raw if name != text_field])
    fields: dict[str, Any] = {"model": given["model"], "input": prompt, "encoding_format": "float"}
    if given.get("dimensions"):
        fields["dimensions"] = given["dimensions"]
    options = {name: value for name, value in (given.get("options") or {}).items() if name not in _DRAWN}
    known = _KEPT | {"model", "options", "dimensions"}
    lost = [name for name, value in given.items() if name not in known and value not in _NOTHING]
    return Translation(
        fields={name: Raw(_ENCODE(value)) for name, value in fields.items()},
        lost=(*lost_options(options), *lost),
        origins={"input": text_field},
        offers=("truncate",) if given.get("truncate") is True else (),
        into=Operation.EMBEDDING,
    )


class VectorsView(WholeLook):
    """See ``WholeView``: an answer that has no vectors is none, but for a model that was only loaded."""

    __slots__ = ()

    def take(self, body: bytes) -> bytes:
        """See ``WholeView.take``."""
        fields = opened_vectors(body)
        self.usage = read_counts(fields.get("prompt_eval_count"), None)
        self.model = text_at(fields, "model")
        return body


def opened_vectors(body: bytes) -> Mapping[str, Any]:
    """The fields of a whole answer with vectors.

    Raises:
        UpstreamInvalid: the body is empty, no JSON, or has no vectors.
        UpstreamError: it is an error.
    """
    if not body.strip():
        raise UpstreamInvalid("the upstream sent an empty answer")
    fields = opened_object(body)
    if fields.get("error"):
        raise error_inside(body, "the upstream reported an error in place of an answer")
    if not isinstance(fields.get("embeddings", fields.get("embedding")), list):
        raise UpstreamInvalid("the upstream sent an answer without vectors")
    return fields
