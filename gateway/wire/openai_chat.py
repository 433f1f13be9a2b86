"""OpenAI's ``POST /v1/chat/completions``."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from gateway.conversation import Message, Sampling, ToolCall
from gateway.errors import InvalidRequest
from gateway.types import Arrival, ChatRequest
from gateway.wire.format import BodyLimits
from gateway.wire.json_body import check_depth, decode, skim_typed
from gateway.wire.openai_fields import STREAM_OPTIONS_NEED_A_STREAM, Count, Fields, Name, SharedFields, text_bytes
from gateway.wire.transport_fields import NAMES_ALLOWED, refuse_transport_fields

_PART_NEEDS = {"image_url": "vision", "input_audio": "audio", "file": "file"}
_FORMAT_NEEDS = {"json_object": "json_mode", "json_schema": "json_schema"}


# What types and bounds alone cannot say, as JSON schemas say it; ``read_chat`` is what holds.
_TURN: Mapping[str, Any] = {
    "properties": {"role": {"minLength": 1}},
    "anyOf": [
        {"properties": {"role": {"not": {"enum": ["system", "developer", "user", "tool"]}}}},
        {"properties": {"content": {"type": ["string", "array"]}}, "required": ["content"]},
    ],
}
_TOOL: Mapping[str, Any] = {
    "anyOf": [
        {"properties": {"type": {"not": {"const": "function"}}}},
        {"properties": {"function": {"type": "object"}}, "required": ["function"]},
    ]
}
_FORMAT: Mapping[str, Any] = {
    "anyOf": [
        {"properties": {"type": {"not": {"const": "json_schema"}}}},
        {"properties": {"json_schema": {"type": "object"}}, "required": ["json_schema"]},
    ]
}


class _Function(msgspec.Struct):
    name: Name
    description: str | None = None
    parameters: Fields | None = None
    strict: bool | None = None


class _Custom(msgspec.Struct):
    name: Name
    description: str | None = None
    format: Fields | None = None


class _Tool(msgspec.Struct):
    type: Name
    function: _Function | None = None
    custom: _Custom | None = None


class _ResponseFormat(msgspec.Struct):
    type: Name
    json_schema: Fields | None = None


class _Chat(SharedFields, kw_only=True):
    messages: Annotated[
        tuple[Annotated[Message, Meta(extra_json_schema=dict(_TURN))], ...], Meta(extra_json_schema={"minItems": 1})
    ]
    max_completion_tokens: Count | None = None
    tools: list[Annotated[_Tool, Meta(extra_json_schema=dict(_TOOL))]] | None = None
    tool_choice: str | Fields | None = None
    parallel_tool_calls: bool | None = None
    functions: list[_Function] | None = None
    function_call: str | Fields | None = None
    response_format: Annotated[_ResponseFormat, Meta(extra_json_schema=dict(_FORMAT))] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0)] | None = None
    audio: Fields | None = None
    modalities: list[str] | None = None
    prediction: Fields | None = None
    metadata: Fields | None = None
    store: bool | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: Fields | None = None
    web_search_options: Fields | None = None
    moderation: Fields | None = None


ChatBody = Annotated[_Chat, Meta(extra_json_schema={**NAMES_ALLOWED, **STREAM_OPTIONS_NEED_A_STREAM})]
"""A body, as a document tells it."""

_CHAT = msgspec.json.Decoder(_Chat)
_TYPED = frozenset(_Chat.__struct_fields__)
_ASKING = frozenset(
    {
        "audio",
        "frequency_penalty",
        "functions",
        "logit_bias",
        "logprobs",
        "modalities",
        "n",
        "presence_penalty",
        "repetition_penalty",
        "response_format",
        "tools",
        "top_logprobs",
    }
)
"""The fields that may call for a capability; the parts of messages may, too."""
_DRAWING = frozenset({"min_p", "seed", "stop", "temperature", "top_k", "top_p"})
_UNSAID = Sampling()
_NO_NEEDS: frozenset[str] = frozenset()
_TURN_BYTES = len('"role":"","content":""')
"""What a turn of text has at least, beside its brackets, its role and its text."""
_SPEAK = frozenset({"system", "developer", "user", "tool"})
"""The roles whose turns are their content; an assistant's may be its tool calls alone."""


def read_chat(arrival: Arrival, body: bytes, limits: BodyLimits) -> ChatRequest:
    """A body as a hub request.

    Raises:
        InvalidRequest: naming the field.
    """
    raw = skim_typed(body, _TYPED)
    if not raw.keys() <= _TYPED:
        refuse_transport_fields(raw)
    chat = decode(_CHAT, body)
    chat.check()
    asks = not _ASKING.isdisjoint(raw)
    if asks:
        _check_tools(chat)
    said_bytes, flat_bytes, part_types = _read_messages(chat.messages, limits.max_messages)
    if len(body) - flat_bytes > 2 * limits.max_depth:  # else there is no room for so many pairs of brackets
        check_depth(body, limits.max_depth)
    limit = chat.max_completion_tokens
    return ChatRequest(
        arrival=arrival,
        model=chat.model,
        messages=chat.messages,
        stream=bool(chat.stream),
        include_usage=chat.include_usage,
        n=chat.n or 1,
        max_tokens=chat.max_tokens if limit is None else limit,
        sampling=_UNSAID if _DRAWING.isdisjoint(raw) else chat.sampling(),
        needs=_needs(chat, part_types) if asks or part_types else _NO_NEEDS,
        prompt_bytes=said_bytes + _definition_bytes(chat, raw) if asks else said_bytes,
        unverified_user=chat.user or "",
        raw=raw,
    )


def _read_messages(messages: tuple[Message, ...], max_messages: int) -> tuple[int, int, set[str]]:
    """Counts the messages and names their faults.

    Returns:
        How many bytes of text the model has to read, how many of the body's are surely no brackets because of them, and
        the types of their parts.
    """
    if not messages:
        raise InvalidRequest("messages must hold at least one message", param="messages")
    if len(messages) > max_messages:
        raise InvalidRequest(f"messages must hold at most {max_messages} messages", param="messages")
    said_bytes = flat_bytes = 0
    part_types: set[str] = set()
    for at, message in enumerate(messages):
        content, role = message.content, message.role
        if not role:
            raise InvalidRequest("a role must not be empty", param=f"messages[{at}].role")
        if isinstance(content, str):
            said_bytes += text_bytes(content)
            flat_bytes += _TURN_BYTES + len(role)
        else:
            if content is not None:
                part_types.update([part.type for part in content])
            elif role in _SPEAK:
                raise InvalidRequest(f"a {role} message needs content", param=f"messages[{at}].content")
            said_bytes += text_bytes(message.text())
        if message.tool_calls:
            said_bytes += sum(map(_call_bytes, message.tool_calls))
    return said_bytes, flat_bytes + said_bytes, part_types


def _call_bytes(call: ToolCall) -> int:
    if call.function is not None:
        return text_bytes(call.function.name) + text_bytes(call.function.arguments)
    return text_bytes(call.custom.name) + text_bytes(call.custom.input) if call.custom else 0


def _check_tools(chat: _Chat) -> None:
    for at, tool in enumerate(chat.tools or ()):
        if tool.type == "function" and tool.function is None:
            raise InvalidRequest(f"tools[{at}].function is required", param=f"tools[{at}].function")
        if tool.type == "custom" and tool.custom is None:
            raise InvalidRequest(f"tools[{at}].custom is required", param=f"tools[{at}].custom")
    answer = chat.response_format
    if answer is not None and answer.type == "json_schema" and answer.json_schema is None:
        name = "response_format.json_schema"
        raise InvalidRequest(f"{name} is required", param=name)


def _needs(chat: _Chat, part_types: set[str]) -> frozenset[str]:
    needs = chat.needs()
    if part_types:
        needs.update(_PART_NEEDS[kind] for kind in part_types & _PART_NEEDS.keys())
    if chat.tools or chat.functions:
        needs.add("tools")
        if any(tool.custom is not None and _is_grammar(tool.custom) for tool in chat.tools or ()):
            needs.add("tool_grammar")
    if chat.response_format is not None and chat.response_format.type in _FORMAT_NEEDS:
        needs.add(_FORMAT_NEEDS[chat.response_format.type])
    if chat.logprobs or chat.top_logprobs:
        needs.add("logprobs")
    if chat.audio is not None or "audio" in (chat.modalities or ()):
        needs.add("audio")
    return frozenset(needs)


def _is_grammar(tool: _Custom) -> bool:
    """Whether the input of a custom tool is bound, and is not any text."""
    return tool.format is not None and bytes(tool.format.get("type", b"")) == b'"grammar"'


def _definition_bytes(chat: _Chat, raw: dict[str, Raw]) -> int:
    """What the model has to read besides turns: definitions, as the JSON that they came in."""
    total = 0
    if chat.tools:
        total += len(raw["tools"])
    if chat.functions:
        total += len(raw["functions"])
    if chat.response_format is not None and chat.response_format.json_schema is not None:
        total += len(raw["response_format"])
    return total
