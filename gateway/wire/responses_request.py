"""OpenAI's ``POST /v1/responses`` as a hub request."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from gateway.conversation import Message, Sampling
from gateway.errors import InvalidRequest, Unsupported
from gateway.types import Arrival, ChatRequest
from gateway.wire.format import BodyLimits
from gateway.wire.json_body import decode, skim
from gateway.wire.openai_fields import Count, Fields, Model, Name, text_bytes
from gateway.wire.responses_items import ITEM, Item, Turns
from gateway.wire.responses_to_chat import translated
from gateway.wire.transport_fields import NAMES_ALLOWED, refuse_transport_fields

_Share = Annotated[float, Meta(ge=0, le=1)]
_NEEDS_OF_PARTS = {"image_url": "vision", "input_audio": "audio", "file": "file"}
_NEEDS_OF_FORMATS = {"json_object": "json_mode", "json_schema": "json_schema"}


# What types alone cannot say, as JSON schemas say it; ``_check`` and ``_turns`` are what holds.
_TOOL: Mapping[str, Any] = {
    "anyOf": [
        {"properties": {"type": {"not": {"enum": ["function", "custom"]}}}},
        {"properties": {"name": {"type": "string", "minLength": 1}}, "required": ["name"]},
    ]
}
_SHAPE: Mapping[str, Any] = {
    "anyOf": [
        {"properties": {"type": {"not": {"const": "json_schema"}}}},
        {
            "properties": {"name": {"type": "string", "minLength": 1}, "schema": {"type": "object"}},
            "required": ["name", "schema"],
        },
    ]
}
_NAMED: Mapping[str, Any] = {"type": "string", "minLength": 1}
_SAID: Mapping[str, Any] = {
    "anyOf": [
        {"properties": {"input": {"type": "string", "minLength": 1}}, "required": ["input"]},
        {"properties": {"input": {"type": "array", "minItems": 1}}, "required": ["input"]},
        {"properties": {"prompt": {"type": "object", "minProperties": 1}}, "required": ["prompt"]},
        {
            "properties": {"conversation": {"anyOf": [_NAMED, {"type": "object", "minProperties": 1}]}},
            "required": ["conversation"],
        },
        {"properties": {"previous_response_id": {"type": "string"}}, "required": ["previous_response_id"]},
    ]
}


class _Tool(msgspec.Struct):
    type: Name
    name: str | None = None
    description: str | None = None
    parameters: Fields | None = None
    strict: bool | None = None
    format: Any = None


class _Shape(msgspec.Struct):
    type: Name
    name: str | None = None
    schema: Fields | None = None


class _Text(msgspec.Struct):
    format: Annotated[_Shape, Meta(extra_json_schema=dict(_SHAPE))] | None = None
    verbosity: str | None = None


class _Reasoning(msgspec.Struct):
    effort: str | None = None
    summary: str | None = None


class _Body(msgspec.Struct, kw_only=True):
    model: Model
    input: str | tuple[Annotated[Item, Meta(extra_json_schema=dict(ITEM))], ...] | None = None
    instructions: str | None = None
    stream: bool | None = None
    stream_options: Fields | None = None
    max_output_tokens: Count | None = None
    max_tool_calls: Count | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: _Share | None = None
    top_logprobs: Annotated[int, Meta(ge=0)] | None = None
    tools: list[Annotated[_Tool, Meta(extra_json_schema=dict(_TOOL))]] | None = None
    tool_choice: str | Fields | None = None
    parallel_tool_calls: bool | None = None
    text: _Text | None = None
    reasoning: _Reasoning | None = None
    include: list[str] | None = None
    metadata: Fields | None = None
    store: bool | None = None
    background: Annotated[bool, Meta(extra_json_schema={"const": False})] | None = None
    previous_response_id: Name | None = None
    conversation: str | Fields | None = None
    prompt: Fields | None = None
    truncation: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None


ResponseBody = Annotated[_Body, Meta(extra_json_schema={**NAMES_ALLOWED, **_SAID})]
"""A body, as a document tells it."""

_BODY = msgspec.json.Decoder(_Body)


def read_response_request(arrival: Arrival, body: bytes, limits: BodyLimits) -> ChatRequest:
    """A body as a hub request.

    Raises:
        InvalidRequest: naming the field.
    """
    raw = skim(body, max_depth=limits.max_depth)
    refuse_transport_fields(raw)
    asked = decode(_BODY, body)
    _check(asked)
    turns = _turns(asked, limits.max_messages)
    messages = msgspec.convert(turns.messages, tuple[Message, ...])
    return ChatRequest(
        arrival=arrival,
        model=asked.model,
        messages=messages,
        stream=bool(asked.stream),
        max_tokens=asked.max_output_tokens,
        sampling=Sampling(temperature=asked.temperature, top_p=asked.top_p),
        needs=_needs(asked, messages),
        prompt_bytes=_prompt_bytes(messages, raw),
        unverified_user=asked.user or "",
        raw=raw,
        translation=cache(partial(translated, raw, turns)),
    )


def _check(asked: _Body) -> None:
    """What types and bounds alone cannot say."""
    if asked.background:
        raise Unsupported("background is not supported here: send the request and read its answer", param="background")
    for at, tool in enumerate(asked.tools or ()):
        if tool.type in {"function", "custom"} and not tool.name:
            raise InvalidRequest(f"tools[{at}].name is required", param=f"tools[{at}].name")
    shape = asked.text.format if asked.text is not None else None
    if shape is not None and shape.type == "json_schema" and (shape.schema is None or not shape.name):
        missing = "schema" if shape.schema is None else "name"
        raise InvalidRequest(f"text.format.{missing} is required", param=f"text.format.{missing}")


def _turns(asked: _Body, max_messages: int) -> Turns:
    """The conversation in the hub's shape.

    Raises:
        InvalidRequest: there is nothing to answer, too much of it, or an item is not what it should be.
    """
    items = asked.input
    if not items and not (asked.prompt or asked.conversation or asked.previous_response_id):
        raise InvalidRequest("input must hold something to answer", param="input")
    turns = Turns()
    if asked.instructions:
        turns.messages.append({"role": "system", "content": asked.instructions})
    if isinstance(items, str):
        turns.messages.append({"role": "user", "content": items})
    elif items:
        if len(items) > max_messages:
            raise InvalidRequest(f"input must hold at most {max_messages} items", param="input")
        for at, item in enumerate(items):
            turns.take(item, f"input[{at}]")
    return turns


def _needs(asked: _Body, messages: tuple[Message, ...]) -> frozenset[str]:
    needs = {"tools"} if asked.tools else set()
    if any(tool.type == "custom" and _is_grammar(tool.format) for tool in asked.tools or ()):
        needs.add("tool_grammar")
    shape = asked.text.format if asked.text is not None else None
    if shape is not None and shape.type in _NEEDS_OF_FORMATS:
        needs.add(_NEEDS_OF_FORMATS[shape.type])
    if asked.top_logprobs or "message.output_text.logprobs" in (asked.include or ()):
        needs.add("logprobs")
    for message in messages:
        if isinstance(message.content, tuple):
            needs.update(_NEEDS_OF_PARTS[part.type] for part in message.content if part.type in _NEEDS_OF_PARTS)
    return frozenset(needs)


def _is_grammar(form: Any) -> bool:
    """Whether the input of a custom tool is bound, and is not any text."""
    return isinstance(form, dict) and form.get("type") == "grammar"


def _prompt_bytes(messages: tuple[Message, ...], raw: dict[str, Any]) -> int:
    """All that the model has to read: turns, calls made in them, and definitions as the JSON that they came in."""
    total = sum(len(memoryview(raw.get(name, Raw(b"")))) for name in ("tools", "text"))
    for message in messages:
        total += text_bytes(message.text())
        for call in message.tool_calls or ():
            if call.function is not None:
                total += text_bytes(call.function.name) + text_bytes(call.function.arguments)
            elif call.custom:
                total += text_bytes(call.custom.name) + text_bytes(call.custom.input)
    return total
