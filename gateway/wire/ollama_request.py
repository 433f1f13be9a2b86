"""Ollama's ``POST /api/chat`` and ``POST /api/generate`` as hub requests. Both stream unless they are told not to."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw

from gateway.conversation import Message, Part, Translation
from gateway.errors import InvalidRequest
from gateway.types import Arrival, ChatRequest
from gateway.wire.format import BodyLimits
from gateway.wire.json_body import decode, skim
from gateway.wire.ollama_options import Options
from gateway.wire.ollama_pictures import pictures
from gateway.wire.ollama_to_chat import chat_of, generation_of
from gateway.wire.ollama_turns import Turn, Turns
from gateway.wire.openai_fields import Fields, Model, text_bytes
from gateway.wire.transport_fields import refuse_transport_fields

Levels = Literal["low", "medium", "high", "max"]
_LATEST = ":latest"
_PART_NEEDS = {"image_url": "vision", "input_audio": "audio"}


class _Function(msgspec.Struct):
    name: str | None = None
    parameters: Fields | None = None


class _Tool(msgspec.Struct):
    function: _Function
    type: str | None = None


class Asked(msgspec.Struct, kw_only=True):
    """What both take."""

    model: Model
    stream: bool | None = None
    format: Literal["", "json"] | Fields | None = None
    options: Options | None = None
    think: bool | Levels | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    keep_alive: float | str | None = None

    @property
    def name(self) -> str:
        """The model's name, without the tag that it has where it has none."""
        return plain_name(self.model)

    def needs(self) -> set[str]:
        """The capabilities that its fields call for."""
        needs: set[str] = set()
        if self.format:
            needs.add("json_mode" if self.format == "json" else "json_schema")
        if self.logprobs:
            needs.add("logprobs")
        if self.options is not None and self.options.penalises():
            needs.add("penalties")
        return needs


class OllamaChatBody(Asked, kw_only=True):
    """What ``/api/chat`` takes."""

    messages: tuple[Turn, ...] | None = None
    tools: list[_Tool] | None = None


class OllamaGenerateBody(Asked, kw_only=True):
    """What ``/api/generate`` takes."""

    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    template: str | None = None
    context: list[int] | None = None
    raw: bool | None = None
    images: list[str] | None = None


# As a JSON schema says what ``read_generation`` holds to.
_RAW_IS_ALONE: Mapping[str, Any] = {
    "anyOf": [
        {"properties": {"raw": {"not": {"const": True}}}},
        {
            "properties": {
                "template": {"enum": [None, ""]},
                "system": {"enum": [None, ""]},
                "context": {"anyOf": [{"type": "null"}, {"type": "array", "maxItems": 0}]},
            }
        },
    ]
}
OllamaGenerate = Annotated[OllamaGenerateBody, Meta(extra_json_schema=dict(_RAW_IS_ALONE))]
"""A body of ``/api/generate``, as a document tells it."""

_CHAT = msgspec.json.Decoder(OllamaChatBody)
_GENERATION = msgspec.json.Decoder(OllamaGenerateBody)


def plain_name(model: str) -> str:
    """A model's name as the policy file has it: to Ollama, ``m`` and ``m:latest`` are the same."""
    return model.removesuffix(_LATEST) or model


def read_chat(arrival: Arrival, body: bytes, limits: BodyLimits) -> ChatRequest:
    """A body of ``/api/chat`` as a hub request. One without messages asks for the model to be loaded.

    Raises:
        InvalidRequest: naming the field.
    """
    raw = skim(body, max_depth=limits.max_depth)
    refuse_transport_fields(raw)
    asked = decode(_CHAT, body)
    given = asked.messages or ()
    if len(given) > limits.max_messages:
        raise InvalidRequest(f"messages must hold at most {limits.max_messages} messages", param="messages")
    turns = Turns()
    for at, turn in enumerate(given):
        turns.take(turn, at)
    messages = tuple(turns.messages)
    needs = asked.needs() | _of_parts(messages)
    if asked.tools:
        needs.add("tools")
    return _request(arrival, asked, raw, messages, frozenset(needs), partial(chat_of, raw, asked.options, turns))


def read_generation(arrival: Arrival, body: bytes, limits: BodyLimits) -> ChatRequest:
    """A body of ``/api/generate`` as a hub request.

    It is a chat of one turn, unless it is ``raw`` or has a ``suffix``: then it is a completion. One without a prompt
    asks for the model to be loaded.

    Raises:
        InvalidRequest: naming the field.
    """
    raw = skim(body, max_depth=limits.max_depth)
    refuse_transport_fields(raw)
    asked = decode(_GENERATION, body)
    if asked.raw and (asked.template or asked.system or asked.context):
        raise InvalidRequest("raw mode has no template, system or context", param="raw")
    needs, messages, prompt = asked.needs(), _turns_of(asked), None
    if not asked.prompt:
        messages = ()
    elif asked.raw or asked.suffix:
        messages, prompt = (), asked.prompt
        needs |= {"raw_prompt"} if asked.raw else {"raw_prompt", "suffix"}
    needs |= _of_parts(messages)
    translated = partial(generation_of, raw, asked.options, messages)
    return _request(arrival, asked, raw, messages, frozenset(needs), translated, prompt)


def _turns_of(asked: OllamaGenerateBody) -> tuple[Message, ...]:
    """The chat that a generation is."""
    parts: tuple[Part, ...] = pictures(asked.images, "")
    prompt = asked.prompt or ""
    content: str | tuple[Part, ...] = (Part(type="text", text=prompt), *parts) if parts else prompt
    user = Message(role="user", content=content)
    return (Message(role="system", content=asked.system), user) if asked.system else (user,)


def _request(
    arrival: Arrival,
    asked: Asked,
    raw: dict[str, Raw],
    messages: tuple[Message, ...],
    needs: frozenset[str],
    translated: Callable[[], Translation],
    prompt: str | None = None,
) -> ChatRequest:
    """The hub request; one that has nothing to answer is answered whole, as Ollama does."""
    options, asks = asked.options or Options(), bool(messages or prompt)
    return ChatRequest(
        arrival=arrival,
        model=asked.name,
        messages=messages,
        prompt=prompt,
        stream=asked.stream is not False and asks,
        max_tokens=options.max_tokens if asks else 0,
        sampling=options.sampling(),
        needs=needs if asks else frozenset(),
        prompt_bytes=_prompt_bytes(messages, raw) + text_bytes(prompt or ""),
        raw=raw,
        translation=cache(translated),
    )


def _of_parts(messages: tuple[Message, ...]) -> set[str]:
    parts = [part for message in messages if isinstance(message.content, tuple) for part in message.content]
    return {_PART_NEEDS[part.type] for part in parts if part.type in _PART_NEEDS}


def _prompt_bytes(messages: tuple[Message, ...], raw: dict[str, Raw]) -> int:
    """All that the model has to read: turns, calls made in them, and definitions as the JSON that they came in."""
    total = len(bytes(raw["tools"])) if "tools" in raw else 0
    total += len(bytes(raw["suffix"])) if "suffix" in raw else 0
    for message in messages:
        total += text_bytes(message.text())
        for call in message.tool_calls or ():
            if call.function is not None:
                total += text_bytes(call.function.name) + text_bytes(call.function.arguments)
    return total
