"""OpenAI's custom tools, whose input is free text, for providers that only know functions: both directions.

Such a tool goes up as a function with one string for an argument, and a call of it comes back as what it was. What a
grammar allows cannot be held that way: it is refused by name, or told in words where the route lets it go.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from gateway.conversation import Message
from gateway.errors import UpstreamError
from gateway.request_fields import TOOL_GRAMMAR, names_path
from gateway.types import ChatRequest
from gateway.wire.cannot_carry import cannot_carry
from gateway.wire.custom_input import FIELD, CustomInput
from gateway.wire.deltas import AnswerEnd, ChoiceFinish, Delta, ToolCallArguments, ToolCallStart
from gateway.wire.json_body import opened_field
from gateway.wire.translation import AnswerReader, ReaderOf

_MARK = b'"custom"'
_ENCODE = msgspec.json.Encoder().encode
_PARAMETERS = {
    "type": "object",
    "properties": {FIELD: {"type": "string", "description": "All of the tool's input, as free text."}},
    "required": [FIELD],
    "additionalProperties": False,
}


def custom_names(fields: Mapping[str, Any]) -> frozenset[str]:
    """The names of the custom tools that a body in the shape of a chat offers."""
    tools = fields.get("tools")
    if tools is None or _MARK not in bytes(tools):
        return frozenset()
    listed = opened_field(fields, "tools") or ()
    return frozenset(str(_custom(tool, "name")) for tool in listed if isinstance(tool, dict) and _is_custom(tool))


def as_functions(request: ChatRequest, *, dropped: Sequence[str]) -> ChatRequest:
    """A request in the shape of a chat, its custom tools and the calls of them told as functions; itself without any.

    Raises:
        UpstreamRefused: a grammar binds the input of a tool, and is not among what the route lets go.
    """
    raw = request.raw
    called = any(call.type == "custom" for turn in request.messages for call in turn.tool_calls or ())
    tools = opened_field(raw, "tools") or [] if "tools" in raw and _MARK in bytes(raw["tools"]) else []
    changes: dict[str, Any] = {}
    if any(map(_is_custom, tools)):
        changes["tools"] = [_function(tool, at, dropped) if _is_custom(tool) else tool for at, tool in enumerate(tools)]
        if "tool_choice" in raw:
            changes["tool_choice"] = _choice(opened_field(raw, "tool_choice"))
    turns = request.messages
    if called:
        changes["messages"] = [_turn(turn) for turn in opened_field(raw, "messages")]
        turns = msgspec.convert(changes["messages"], tuple[Message, ...])
    if not changes:
        return request
    fields = {name: Raw(_ENCODE(value)) for name, value in changes.items()}
    return replace(request, raw={**raw, **fields}, messages=turns)


def reading_customs(reader_of: ReaderOf, names: frozenset[str]) -> ReaderOf:
    """The same reader, which tells calls of the functions ``names`` as calls of custom tools."""
    return lambda streamed: CustomCallReader(reader_of(streamed), names)


class CustomCallReader:
    """See ``AnswerReader``: takes another's deltas, and gives the input of custom tools in place of arguments."""

    def __init__(self, reader: AnswerReader, names: frozenset[str]) -> None:
        self._reader = reader
        self._names = names
        self._inputs: dict[tuple[int, int], CustomInput] = {}
        self.error: UpstreamError | None = None

    def feed(self, data: bytes) -> list[Delta]:
        """See ``AnswerReader.feed``."""
        return self._told(self._reader.feed(data))

    def end(self) -> list[Delta]:
        """See ``AnswerReader.end``."""
        return self._told(self._reader.end())

    def _told(self, deltas: list[Delta]) -> list[Delta]:
        self.error = self._reader.error
        out: list[Delta] = []
        for delta in deltas:
            match delta:
                case ToolCallStart(index=index, choice=choice) if delta.name in self._names:
                    self._inputs[choice, index] = CustomInput()
                    out.append(replace(delta, custom=True))
                case ToolCallArguments(index=index, choice=choice) if (choice, index) in self._inputs:
                    out += _input(index, choice, self._inputs[choice, index].feed(delta.text))
                case ChoiceFinish(choice=choice):
                    out += [*self._ended(choice), delta]
                case AnswerEnd():
                    out += [*self._ended(None), delta]
                case _:
                    out.append(delta)
        return out

    def _ended(self, choice: int | None) -> list[Delta]:
        """What was held back of a choice, or of all of them."""
        over = [place for place in self._inputs if choice is None or place[0] == choice]
        return [delta for at, index in over for delta in _input(index, at, self._inputs.pop((at, index)).end())]


def _input(index: int, choice: int, text: str) -> list[Delta]:
    return [ToolCallArguments(index=index, text=text, choice=choice, custom=True)] if text else []


def _is_custom(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "custom"


def _custom(item: Mapping[str, Any], name: str) -> Any:
    """A field of a custom tool, or of a call of one."""
    inner = item.get("custom")
    return inner.get(name) if isinstance(inner, dict) else None


def _function(tool: Mapping[str, Any], at: int, dropped: Sequence[str]) -> dict[str, Any]:
    name, words = _custom(tool, "name"), _custom(tool, "description") or ""
    if not isinstance(name, str) or not name:
        raise cannot_carry(f"tools[{at}].custom.name")
    form = _custom(tool, "format") or {"type": "text"}
    if form.get("type") != "text":
        if not any(names_path(dropped, path) for path in TOOL_GRAMMAR.values()):
            raise cannot_carry(f"tools[{at}].custom.format")
        grammar = form.get("grammar") or {}
        words = f"{words}\n\nIts input has this {grammar.get('syntax')} grammar:\n{grammar.get('definition')}".strip()
    function = {"name": name, **({"description": words} if words else {}), "parameters": _PARAMETERS}
    kept = {key: value for key, value in tool.items() if key not in {"type", "custom"}}
    return {**kept, "type": "function", "function": function}


def _choice(choice: Any) -> Any:
    if _is_custom(choice):
        return {"type": "function", "function": {"name": _custom(choice, "name")}}
    if isinstance(choice, dict) and isinstance(allowed := choice.get("allowed_tools"), dict):
        tools = [_choice(tool) for tool in allowed.get("tools") or ()]
        return {**choice, "allowed_tools": {**allowed, "tools": tools}}
    return choice


def _calls(turn: Any) -> Sequence[Any]:
    return (turn.get("tool_calls") or ()) if isinstance(turn, dict) else ()


def _turn(turn: dict[str, Any]) -> dict[str, Any]:
    return {**turn, "tool_calls": [_called(call) for call in turn["tool_calls"]]} if _calls(turn) else turn


def _called(call: Any) -> Any:
    if not _is_custom(call):
        return call
    arguments = _ENCODE({FIELD: _custom(call, "input") or ""}).decode()
    function = {"name": _custom(call, "name"), "arguments": arguments}
    return {**{key: value for key, value in call.items() if key != "custom"}, "type": "function", "function": function}
