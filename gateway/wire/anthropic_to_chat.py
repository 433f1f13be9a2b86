"""An Anthropic request in the shape of OpenAI's chat, for backends that do not speak Anthropic's."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation import Message, Part, Translation
from gateway.wire.anthropic_blocks import Turns
from gateway.wire.json_body import opened_fields

Fields = dict[str, Any]

ORIGINS: Mapping[str, str] = MappingProxyType(
    {
        "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
        "reasoning_effort": "output_config.effort",
        "response_format": "output_config.format",
        "stop": "stop_sequences",
    }
)
"""What the chat's fields are called by Anthropic's clients, where the names differ."""

FORWARDED = frozenset({"max_tokens", "model", "stream", "temperature", "top_k", "top_p"})
"""Fields of the same name and meaning in both."""

MAPPED = frozenset({"messages", "output_config", "stop_sequences", "system", "thinking", "tool_choice", "tools"})
"""Fields that go on under another name or in another form."""

KEPT = frozenset({"cache_control", "metadata", "service_tier"})
"""Fields that no answer depends on: they are about the provider's cache, its books and its queue."""

_CONTINUE = ("continue_final_message", "add_generation_prompt")
_EFFORTS = {"max": "xhigh"}
"""Anthropic's words for effort that OpenAI has another word for."""
_LOW_BUDGET_TOKENS = 4096
_MEDIUM_BUDGET_TOKENS = 16384
_TOOL_HINTS = frozenset({"cache_control", "eager_input_streaming"})
_TOOL_FIELDS = frozenset({"name", "type", "description", "input_schema", "strict"})
_ENCODE = msgspec.json.Encoder().encode


def translated(raw: Mapping[str, Raw], turns: Turns) -> Translation:
    """The body ``raw``, whose conversation has been read as ``turns``."""
    given = opened_fields(raw, [name for name in raw if name not in {"messages", "system"}])
    lost = [*turns.lost]
    fields: Fields = {name: given[name] for name in FORWARDED & given.keys() if given[name] is not None}
    fields["messages"] = [_turn(message, turns.thoughts.get(at)) for at, message in enumerate(turns.messages)]
    if given.get("stop_sequences"):
        fields["stop"] = given["stop_sequences"]
    origins = ORIGINS
    if turns.begun:  # as vLLM has it: OpenAI's own chat has no way to go on with a turn
        fields |= {"continue_final_message": True, "add_generation_prompt": False}
        origins = MappingProxyType({**ORIGINS, **dict.fromkeys(_CONTINUE, turns.begun)})
    _tools(given, fields, lost)
    _thinking(given, fields, lost)
    hints = _output(given, fields, lost)
    known = FORWARDED | MAPPED | KEPT
    lost += [name for name, value in given.items() if name not in known and not _says_nothing(name, value)]
    return Translation(
        fields={name: Raw(_ENCODE(value)) for name, value in fields.items()},
        lost=tuple(dict.fromkeys(lost)),
        origins=origins,
        hints=hints,
    )


def _turn(message: Message, thoughts: Any) -> Fields:
    turn: Fields = {"role": message.role, "content": message.content}
    if isinstance(message.content, tuple):
        turn["content"] = [_part(part) for part in message.content]
    if message.tool_call_id is not None:
        turn["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        turn["tool_calls"] = message.tool_calls
    if thoughts:
        turn["reasoning_content"] = "".join(block.thinking or "" for block in thoughts)
        signed = [block for block in thoughts if block.signature or block.data]
        if signed:
            turn["thinking_blocks"] = [
                {"type": block.type, "data": block.data}
                if block.data is not None
                else {"type": block.type, "thinking": block.thinking or "", "signature": block.signature}
                for block in signed
            ]
    return turn


def _part(part: Part) -> Fields:
    fields = {"type": part.type, "text": part.text, "image_url": part.image_url, "file": part.file}
    return {name: value for name, value in fields.items() if value is not None}


def _tools(given: Fields, fields: Fields, lost: list[str]) -> None:
    tools = given.get("tools")
    if tools:
        fields["tools"] = [_tool(tool, f"tools[{at}]", lost) for at, tool in enumerate(tools)]
    choice = given.get("tool_choice")
    if choice is None:
        return
    match choice:
        case {"type": "auto" | "none" as kind}:
            fields["tool_choice"] = kind
        case {"type": "any"}:
            fields["tool_choice"] = "required"
        case {"type": "tool", "name": str(name)}:
            fields["tool_choice"] = {"type": "function", "function": {"name": name}}
        case _:
            lost.append("tool_choice")
    if choice.get("disable_parallel_tool_use") is True:
        fields["parallel_tool_calls"] = False


def _tool(tool: Fields, where: str, lost: list[str]) -> Fields:
    if tool.get("type") not in {None, "custom"}:  # one that Anthropic itself runs, or has taught its models
        lost.append(where)
        return {}
    function: Fields = {"name": tool.get("name"), "parameters": tool.get("input_schema")}
    for name in ("description", "strict"):
        if tool.get(name) is not None:
            function[name] = tool[name]
    others = sorted(tool.keys() - _TOOL_FIELDS - _TOOL_HINTS)
    lost += [f"{where}.{name}" for name in others if tool[name] not in (None, False, ["direct"], [])]
    return {"type": "function", "function": function}


def _thinking(given: Fields, fields: Fields, lost: list[str]) -> None:
    """A budget goes on as it is, for who counts thoughts, and as an effort, for who only knows those."""
    thinking = given.get("thinking")
    match thinking:
        case None | {"type": "adaptive" | "between_tools"}:
            return
        case {"type": "disabled"}:
            fields["thinking"] = {"type": "disabled"}
        case {"type": "enabled", "budget_tokens": int(budget_tokens)}:
            fields["thinking"] = {"type": "enabled", "budget_tokens": budget_tokens}
            fields["reasoning_effort"] = effort_of(budget_tokens)
        case _:
            lost.append("thinking")


def effort_of(budget_tokens: int) -> str:
    """The effort that comes nearest to a budget of thoughts."""
    if budget_tokens < _LOW_BUDGET_TOKENS:
        return "low"
    return "medium" if budget_tokens < _MEDIUM_BUDGET_TOKENS else "high"


def _output(given: Fields, fields: Fields, lost: list[str]) -> frozenset[str]:
    """``output_config``: an effort is a wish as long as no budget stands beside it; a form is a demand."""
    config = given.get("output_config") or {}
    form, effort = config.get("format"), config.get("effort")
    match form:
        case None:
            pass
        case {"type": "json_schema", "schema": schema}:
            named = {"name": "answer", "schema": schema, "strict": True}
            fields["response_format"] = {"type": "json_schema", "json_schema": named}
        case _:
            lost.append("output_config.format")
    lost += [f"output_config.{name}" for name in config.keys() - {"format", "effort"} if config[name] is not None]
    if not isinstance(effort, str) or "reasoning_effort" in fields:
        return frozenset()
    fields["reasoning_effort"] = _EFFORTS.get(effort, effort)
    return frozenset({"reasoning_effort"})


def _says_nothing(name: str, value: Any) -> bool:
    """Whether a field asks for what happens without it."""
    if name == "context_management":
        edits = (value or {}).get("edits") or []
        return isinstance(edits, list) and all(map(_keeps_all, edits))
    if name == "thread":  # nothing is held here: who goes on with it is told so, and sends the whole conversation
        return value is None or value == {"type": "create"}
    return value in (None, [], {}) or (name, value) == ("speed", "standard")


def _keeps_all(edit: Any) -> bool:
    """Whether an edit of the context takes nothing out of it."""
    return isinstance(edit, dict) and edit.get("type") == "clear_thinking_20251015" and edit.get("keep") == "all"
