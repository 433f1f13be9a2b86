"""Which endpoint a request's body is for, told by fields that only its format has."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from gateway.types import Operation

_ONLY_MESSAGES = frozenset(
    {
        "anthropic_version",
        "container",
        "context_management",
        "mcp_servers",
        "output_config",
        "stop_sequences",
        "system",
        "thinking",
    }
)
_ONLY_BLOCKS = frozenset(
    {"document", "image", "redacted_thinking", "search_result", "thinking", "tool_result", "tool_use"}
)
_ONLY_RESPONSE = frozenset(
    {
        "background",
        "conversation",
        "include",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "previous_response_id",
        "reasoning",
        "store",
        "stream",
        "temperature",
        "text",
        "tools",
        "top_p",
        "truncation",
    }
)
"""Beside ``input``, which embeddings have, too."""
_ONLY_OLLAMA = frozenset({"keep_alive", "options", "raw", "template", "think"})
_OLLAMA: Mapping[Operation, Operation] = MappingProxyType(
    {
        Operation.CHAT: Operation.OLLAMA_CHAT,
        Operation.COMPLETION: Operation.OLLAMA_GENERATE,
        Operation.EMBEDDING: Operation.OLLAMA_EMBED,
    }
)
_BY_FIELD: Mapping[str, Operation] = MappingProxyType(
    {"messages": Operation.CHAT, "input": Operation.EMBEDDING, "prompt": Operation.COMPLETION}
)


def operation_of(body: bytes) -> Operation:
    """The operation of a body; a chat's, where it is of none or may be of several."""
    try:
        fields = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):  # which the format says in better words
        return Operation.CHAT
    found = next((operation for name, operation in _BY_FIELD.items() if name in fields), Operation.CHAT)
    if not _ONLY_OLLAMA.isdisjoint(fields):
        return _OLLAMA[found]
    if found is Operation.CHAT and _is_messages(fields):
        return Operation.MESSAGES
    if found is Operation.EMBEDDING and _is_response(fields):
        return Operation.RESPONSE
    return found


def _is_messages(fields: Mapping[str, Any]) -> bool:
    if not _ONLY_MESSAGES.isdisjoint(fields) or any("input_schema" in tool for tool in _objects(fields.get("tools"))):
        return True
    turns = _objects(fields.get("messages"))
    return any(part.get("type") in _ONLY_BLOCKS for turn in turns for part in _objects(turn.get("content")))


def _is_response(fields: Mapping[str, Any]) -> bool:
    return not _ONLY_RESPONSE.isdisjoint(fields) or bool(_objects(fields["input"]))


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
