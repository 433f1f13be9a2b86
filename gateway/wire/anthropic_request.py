"""Anthropic's ``POST /v1/messages`` as a hub request."""

from functools import cache, partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw
from msgspec.structs import replace

from gateway.conversation import Message, Sampling
from gateway.errors import InvalidRequest
from gateway.types import Arrival, ChatRequest
from gateway.wire.anthropic_blocks import Content, Turns
from gateway.wire.anthropic_session import session_of
from gateway.wire.anthropic_to_chat import translated
from gateway.wire.format import BodyLimits
from gateway.wire.json_body import decode, skim
from gateway.wire.openai_fields import Fields, Model, Name, text_bytes
from gateway.wire.transport_fields import NAMES_ALLOWED, refuse_transport_fields

_MAX_STOPS = 8191
_Share = Annotated[float, Meta(ge=0, le=1)]


# As JSON schemas say what ``_turns`` and ``read_messages`` hold to.
_Role = Annotated[str, Meta(min_length=1, extra_json_schema={"enum": ["user", "assistant", "system"]})]
_Stops = Annotated[tuple[str, ...], Meta(extra_json_schema={"maxItems": _MAX_STOPS})]


class _MessagesTurn(msgspec.Struct):
    role: _Role
    content: Content


class _Tool(msgspec.Struct):
    name: str | None = None
    type: str | None = None
    description: str | None = None
    input_schema: Fields | None = None


class _Choice(msgspec.Struct):
    type: Name
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Metadata(msgspec.Struct):
    user_id: str | None = None


class _Thinking(msgspec.Struct):
    type: Name
    budget_tokens: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None


class _OutputConfig(msgspec.Struct):
    effort: str | None = None
    format: Fields | None = None


class Counted(msgspec.Struct, kw_only=True):
    """What ``/v1/messages/count_tokens`` takes, and ``/v1/messages`` too."""

    model: Model
    messages: Annotated[tuple[_MessagesTurn, ...], Meta(extra_json_schema={"minItems": 1})]
    system: Content | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Choice | None = None
    thinking: _Thinking | None = None
    output_config: _OutputConfig | None = None
    metadata: _Metadata | None = None
    cache_control: Fields | None = None


class _Body(Counted, kw_only=True):
    max_tokens: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    stream: bool | None = None
    stop_sequences: _Stops | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: _Share | None = None
    top_k: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    service_tier: str | None = None
    container: Any = None
    context_management: Fields | None = None
    mcp_servers: list[Any] | None = None


MessagesBody = Annotated[_Body, Meta(extra_json_schema=dict(NAMES_ALLOWED))]
CountedBody = Annotated[Counted, Meta(extra_json_schema=dict(NAMES_ALLOWED))]
"""Bodies, as a document tells them."""

_MESSAGES = msgspec.json.Decoder(_Body)
_COUNTED = msgspec.json.Decoder(Counted)


def read_messages(arrival: Arrival, body: bytes, limits: BodyLimits) -> ChatRequest:
    """A body as a hub request.

    Raises:
        InvalidRequest: naming the field.
    """
    raw = skim(body, max_depth=limits.max_depth)
    refuse_transport_fields(raw)
    asked = decode(_MESSAGES, body)
    stops = asked.stop_sequences or ()
    if len(stops) > _MAX_STOPS:
        raise InvalidRequest(f"stop_sequences must hold at most {_MAX_STOPS} strings", param="stop_sequences")
    return replace(
        _request(arrival, asked, raw, limits),
        stream=bool(asked.stream),
        max_tokens=asked.max_tokens,
        sampling=Sampling(temperature=asked.temperature, top_p=asked.top_p, top_k=asked.top_k, stop=stops),
    )


def read_counted(arrival: Arrival, body: bytes, limits: BodyLimits) -> ChatRequest:
    """A body of ``/v1/messages/count_tokens`` as a hub request that writes nothing.

    Raises:
        InvalidRequest: naming the field.
    """
    raw = skim(body, max_depth=limits.max_depth)
    refuse_transport_fields(raw)
    return replace(_request(arrival, decode(_COUNTED, body), raw, limits), max_tokens=0)


def _request(arrival: Arrival, asked: Counted, raw: dict[str, Raw], limits: BodyLimits) -> ChatRequest:
    turns = _turns(asked, limits.max_messages)
    user = asked.metadata.user_id if asked.metadata is not None else None
    if user and not arrival.session:
        arrival = replace(arrival, session=session_of(user))
    messages = tuple(turns.messages)
    return ChatRequest(
        arrival=arrival,
        model=asked.model,
        messages=messages,
        needs=frozenset(turns.needs | _needs(asked)),
        prompt_bytes=_prompt_bytes(messages, raw),
        unverified_user=user or "",
        raw=raw,
        translation=cache(partial(translated, raw, turns)),
    )


def _turns(asked: Counted, max_messages: int) -> Turns:
    """The conversation in the hub's shape.

    Raises:
        InvalidRequest: there is no message, there are too many, or one is not what it should be.
    """
    if not asked.messages:
        raise InvalidRequest("messages must hold at least one message", param="messages")
    if len(asked.messages) > max_messages:
        raise InvalidRequest(f"messages must hold at most {max_messages} messages", param="messages")
    turns = Turns()
    if asked.system:
        turns.system(asked.system, "system")
    for at, turn in enumerate(asked.messages):
        where = f"messages[{at}]"
        match turn.role:
            case "user":
                turns.user(turn.content, where)
            case "assistant":
                turns.assistant(turn.content, where)
            case "system":
                turns.system(turn.content, f"{where}.content")
            case _:
                raise InvalidRequest(f"{where}.role must be user, assistant or system", param=f"{where}.role")
    if asked.messages[-1].role == "assistant":
        turns.begun = f"messages[{len(asked.messages) - 1}]"
    return turns


def _needs(asked: Counted) -> set[str]:
    needs = {"tools"} if asked.tools else set()
    if asked.output_config is not None and asked.output_config.format is not None:
        needs.add("json_schema")
    return needs


def _prompt_bytes(messages: tuple[Message, ...], raw: dict[str, Raw]) -> int:
    """All that the model has to read: turns, calls made in them, and definitions as the JSON that they came in."""
    total = len(bytes(raw["tools"])) if "tools" in raw else 0
    for message in messages:
        total += text_bytes(message.text())
        for call in message.tool_calls or ():
            if call.function is not None:
                total += text_bytes(call.function.name) + text_bytes(call.function.arguments)
    return total
