"""The shapes of streamed answers, event by event, as a document tells them.

JSON schemas describe an event as the object of its fields (https://spec.openapis.org/oas/v3.2.0#server-sent-events):
``data`` is text, which has JSON in it.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from gateway.openapi.answers import ChatUsage, Count


class ChatDelta(Struct, kw_only=True):
    """What comes to a chat's message."""

    role: str | None = None
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[dict[str, Any]] | None = None


class ChatDeltaChoice(Struct, kw_only=True):
    """More of one answer of the ``n`` asked for."""

    index: Count
    delta: ChatDelta
    finish_reason: str | None = None
    logprobs: Any = None


class ChatChunk(Struct, kw_only=True):
    """An event of a chat; the last has the counts and no choices, where the client asked for them."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatDeltaChoice]
    usage: ChatUsage | None = None


class TextDeltaChoice(Struct, kw_only=True):
    """More of one text."""

    index: Count
    text: str
    finish_reason: str | None = None
    logprobs: Any = None


class TextChunk(Struct, kw_only=True):
    """An event of a completion, likewise."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextDeltaChoice]
    usage: ChatUsage | None = None


class MessageEvent(Struct, kw_only=True):
    """An event of Anthropic's Messages; the other fields are those of its type."""

    type: Literal[
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
    ]


class ResponseEvent(Struct, kw_only=True):
    """An event of OpenAI's Responses; the other fields are those of its type."""

    type: Annotated[str, Meta(pattern=r"^(response\.[a-z0-9_.]+|error)$")]
    sequence_number: Count


ENDED: Mapping[str, Any] = {"const": "[DONE]"}
"""The last event of OpenAI's chats and completions."""


def event_of(data: Mapping[str, Any], *, ended: bool, named: bool) -> Mapping[str, Any]:
    """An event whose ``data`` is JSON of that schema, or ``[DONE]`` where it ``ended``; ``named`` ones have a type."""
    text = {"type": "string", "contentMediaType": "application/json", "contentSchema": data}
    return {
        "type": "object",
        "description": "One server-sent event, where the request has `stream: true`.",
        "properties": {"event": {"type": "string"}, "data": {"anyOf": [ENDED, text]} if ended else text},
        "required": ["event", "data"] if named else ["data"],
    }
