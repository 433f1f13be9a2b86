"""Ollama's messages as those of the hub.

Its calls may come without ids, and results then name the function alone: a call without one gets one by its place, and
a result belongs to the first call of that name that has none yet.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation import FunctionCall, Message, Part, ToolCall
from gateway.errors import InvalidRequest
from gateway.wire.ollama_pictures import part_fields, pictures
from gateway.wire.openai_fields import Fields, Name

_ROLES = frozenset({"system", "user", "assistant", "tool"})
_KNOWN = frozenset(
    {"role", "content", "thinking", "thinking_blocks", "images", "tool_calls", "tool_name", "tool_call_id"}
)
_NAMES = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_ENCODE = msgspec.json.Encoder().encode


class Function(msgspec.Struct):
    """What a call names."""

    name: Name
    arguments: Fields | None = None


class Called(msgspec.Struct):
    """A call that the model made."""

    function: Function
    id: str | None = None


class Turn(msgspec.Struct):
    """A message as it stands in a body."""

    role: Name
    content: str | None = None
    thinking: str | None = None
    thinking_blocks: list[Raw] | None = None
    images: list[str] | None = None
    tool_calls: list[Called] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class Turns:
    """A conversation in the hub's shape: ``messages``, and paths to what has no place there (``lost``).

    ``begun`` is the path of an answer that the assistant has begun and is to go on with; empty where there is none.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.thoughts: dict[int, dict[str, Any]] = {}
        self.lost: list[str] = []
        self.begun = ""
        self._open: list[tuple[str, str]] = []  # ids and names of calls that have no result yet

    def take(self, turn: Turn, at: int) -> None:
        """The next message, which is the ``at``-th.

        Raises:
            InvalidRequest: a picture in it is none.
        """
        where, role = f"messages[{at}]", turn.role.lower()
        if role not in _ROLES:
            self.lost.append(f"{where}.role")
        calls = tuple(self._call(call, f"call_{at}_{place}") for place, call in enumerate(turn.tool_calls or ()))
        parts = pictures(turn.images, where)
        content: str | tuple[Part, ...] = turn.content or ""
        if parts:
            content = (Part(type="text", text=turn.content), *parts) if turn.content else parts
        thoughts = {"reasoning_content": turn.thinking, "thinking_blocks": turn.thinking_blocks}
        if any(thoughts.values()):
            self.thoughts[len(self.messages)] = {name: value for name, value in thoughts.items() if value}
        answered = self._answered(turn, where) if role == "tool" else None
        self.messages.append(Message(role=role, content=content, tool_calls=calls or None, tool_call_id=answered))
        self.begun = where if role == "assistant" and turn.content and not calls else ""

    def chat_messages(self) -> list[dict[str, Any]]:
        """The messages as a chat's JSON has them."""
        return [self._chat_message(at, message) for at, message in enumerate(self.messages)]

    def _chat_message(self, at: int, message: Message) -> dict[str, Any]:
        content = message.content
        fields: dict[str, Any] = {"role": message.role, "content": content}
        if isinstance(content, tuple):
            fields["content"] = [part_fields(part) for part in content]
        if message.tool_calls:
            fields["tool_calls"] = message.tool_calls
        if message.tool_call_id is not None:
            fields["tool_call_id"] = message.tool_call_id
        return fields | self.thoughts.get(at, {})

    def _call(self, call: Called, unnamed: str) -> ToolCall:
        call_id, function = call.id or unnamed, call.function
        self._open.append((call_id, function.name))
        arguments = _ENCODE(function.arguments or {}).decode()
        return ToolCall(id=call_id, function=FunctionCall(name=function.name, arguments=arguments))

    def _answered(self, turn: Turn, where: str) -> str:
        """The id of the call whose result this is."""
        wanted = turn.tool_call_id or turn.tool_name
        for place, (call_id, name) in enumerate(self._open):
            if wanted is None or wanted == (call_id if turn.tool_call_id else name):
                del self._open[place]
                return call_id
        if turn.tool_call_id:
            return turn.tool_call_id
        self.lost.append(f"{where}.tool_name" if turn.tool_name else where)
        return ""


def refuse_other_spellings(messages: Raw) -> None:
    """Holds messages that go up as they came to the spelling of their fields.

    Ollama does not mind the case of a name, and of two of one kind the last counts for it: what we have read, and what
    guards have seen, would not be what the model reads.

    Raises:
        InvalidRequest: a field is spelled in another way.
    """
    if bytes(messages) == b"null":
        return
    for at, message in enumerate(_NAMES(messages)):
        for name in message.keys() - _KNOWN:
            if (known := name.casefold()) in _KNOWN:
                words = f"messages[{at}] has a field that some would take for {known}"
                raise InvalidRequest(words, param=f"messages[{at}].{known}")


def lost_in(messages: list[Mapping[str, Any]]) -> list[str]:
    """Fields of messages that nobody knows, by their paths."""
    return [
        f"messages[{at}].{name}"
        for at, message in enumerate(messages)
        for name, value in message.items()
        if name not in _KNOWN and value is not None
    ]
