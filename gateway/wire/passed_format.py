"""The formats of what is passed on: bodies as they came, with nothing but the model's name replaced."""

import math
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.errors import HeadraceError, InvalidRequest
from gateway.types import Arrival, ChatRequest, Operation
from gateway.wire import openai_errors
from gateway.wire.form_body import form_with_model, is_form, read_form
from gateway.wire.format import DEFAULT_LIMITS, MAX_EVENT_BYTES, BodyLimits, Estimate, estimate_output
from gateway.wire.json_body import decode, edit, opened_fields, skim
from gateway.wire.openai_fields import Model, text_bytes
from gateway.wire.passages import Asked, Passage, kind_word
from gateway.wire.passed_views import PassedEvents, PassedWhole
from gateway.wire.transport_fields import refuse_transport_fields

_TRUE = frozenset({"true", "1"})
_MOST_PICTURES = 1000
_TEXTS = ("input", "prompt", "query", "instructions", "documents")


class _Named(msgspec.Struct):
    model: Model | None = None


_NAMED = msgspec.json.Decoder(_Named)


@dataclass(frozen=True, slots=True)
class PassedFormat:
    """See ``Format``. What the fields of a body mean is the upstream's to judge."""

    passage: Passage

    @property
    def operation(self) -> Operation:
        """See ``Format.operation``."""
        return self.passage.operation

    def read(self, arrival: Arrival, body: bytes, limits: BodyLimits = DEFAULT_LIMITS) -> ChatRequest:
        """See ``Format.read``. ``prompt_bytes`` are those of its texts; what a file holds is nobody's to count."""
        content_type = dict(arrival.format_headers).get("content-type", "")
        if self.passage.uploads and is_form(content_type):
            return self._read_form(arrival, body, content_type)
        raw = skim(body, max_depth=limits.max_depth)
        refuse_transport_fields(raw)
        named = decode(_NAMED, body)
        return self._request(arrival, named.model, opened_fields(raw, _LOOKED_AT & raw.keys()), raw)

    def upstream_body(self, request: ChatRequest, model: str) -> bytes:
        """See ``Format.upstream_body``: a name is put in where the client left it out and another one is meant."""
        form = request.form
        if form is not None:
            unsaid = form.model_span is None and model == self.passage.default_model
            return form.body if unsaid else form_with_model(form, model)
        unsaid = "model" not in request.raw and model == self.passage.default_model
        return edit(request.raw, {} if unsaid else {"model": msgspec.json.encode(model)})

    def whole(self, request: ChatRequest) -> PassedWhole:
        """See ``Format.whole``."""
        return PassedWhole(request)

    def stream(
        self, request: ChatRequest, *, max_event_bytes: int = MAX_EVENT_BYTES, estimate: Estimate = estimate_output
    ) -> PassedEvents:
        """See ``Format.stream``."""
        del estimate
        return PassedEvents(request, max_event_bytes=max_event_bytes)

    def error_body(self, error: HeadraceError) -> bytes:
        """See ``Format.error_body``."""
        return openai_errors.error_body(error)

    def error_event(self, error: HeadraceError) -> bytes:
        """See ``Format.error_event``."""
        return openai_errors.error_event(error)

    def _read_form(self, arrival: Arrival, body: bytes, content_type: str) -> ChatRequest:
        read = read_form(body, content_type)
        refuse_transport_fields(read.fields)
        request = self._request(arrival, read.fields.get("model"), read.fields, {})
        return msgspec.structs.replace(request, form=read.form)

    def _request(
        self, arrival: Arrival, model: str | None, fields: dict[str, Any], raw: dict[str, msgspec.Raw]
    ) -> ChatRequest:
        model = model or self.passage.default_model
        if not model:
            raise InvalidRequest("model is required", param="model")
        missing = next((name for name in self.passage.needs if name not in fields), None)
        if missing is not None:
            raise InvalidRequest(f"{missing} is required", param=missing)
        asked = _asked(fields)
        user = fields.get("user")
        return ChatRequest(
            arrival=arrival,
            model=model,
            stream=_is_true(fields.get("stream")) or fields.get("stream_format") == "sse",
            prompt_bytes=asked.text_bytes,
            unverified_user=user if isinstance(user, str) else "",
            raw=raw,
            units=self.passage.units(asked),
        )


_LOOKED_AT = frozenset({"n", "size", "quality", "stream", "stream_format", "user", *_TEXTS})


def _asked(fields: dict[str, Any]) -> Asked:
    spoken, documents = fields.get("input"), fields.get("documents")
    return Asked(
        n=_number(fields.get("n")),
        size=kind_word(fields.get("size")),
        quality=kind_word(fields.get("quality")),
        text_characters=len(spoken) if isinstance(spoken, str) else 0,
        text_bytes=sum(_text_bytes(fields.get(name)) for name in _TEXTS),
        documents=len(documents) if isinstance(documents, list) else 0,
    )


def _text_bytes(value: Any) -> int:
    """Of a text, of all in a list, and of what parts of one call their text."""
    if isinstance(value, str):
        return text_bytes(value)
    if isinstance(value, list):
        return sum(_text_bytes(one) for one in value)
    return _text_bytes(value.get("text")) if isinstance(value, dict) else 0


def _number(value: Any) -> int:
    """How many are wanted: one, where that is not said or is nonsense, which the upstream will refuse."""
    try:
        wanted = float(value)
    except (TypeError, ValueError, OverflowError):
        return 1
    return int(wanted) if math.isfinite(wanted) and 1 <= wanted <= _MOST_PICTURES else 1


def _is_true(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.lower() in _TRUE)
