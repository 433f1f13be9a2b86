"""A body of OpenAI's Responses in the shape of OpenAI's chat.

What a chat calls by another name is mapped, what has no place there is told by its path, and what no answer depends on
(``store``, ``metadata``, ``user``...) stays with us: the answer repeats it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation import Translation
from gateway.errors import InvalidRequest
from gateway.wire.json_body import opened_field
from gateway.wire.responses_items import Turns, spaced
from gateway.wire.upstream_json import text_of

FORWARDED = frozenset(
    {
        "model",
        "stream",
        "temperature",
        "top_p",
        "parallel_tool_calls",
        "service_tier",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
    }
)
"""Fields of the same name and meaning in both."""

MAPPED = frozenset(
    {
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "reasoning",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
    }
)
"""Fields that go on under another name or in another form."""

KEPT = frozenset(
    {
        "background",  # refused where it is true
        "client_metadata",  # a client's own book-keeping, as metadata is its user's
        "max_tool_calls",  # counts calls of the provider's own tools, which are refused
        "metadata",
        "previous_response_id",  # see `Remembered`
        "store",
        "stream_options",
    }
)
"""Fields that stay with us: no provider's answer depends on them."""

_SAYS_NOTHING: Mapping[str, bytes] = {"truncation": b'"disabled"', "context_management": b"[]"}
ORIGINS: Mapping[str, str] = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
    "verbosity": "text.verbosity",
    "reasoning_effort": "reasoning.effort",
    "logprobs": "include",
}
"""What the chat's fields are called by clients of Responses, where the names differ."""
_LOGPROBS = "message.output_text.logprobs"


def translated(raw: Mapping[str, Any], turns: Turns) -> Translation:
    """The body of ``raw``, whose conversation ``turns`` has, as one of OpenAI's chat."""
    lost = list(turns.lost)
    fields = {name: raw[name] for name in raw if name in FORWARDED}
    changes: dict[str, Any] = {"messages": turns.messages, "max_tokens": _value(raw, "max_output_tokens")}
    changes["tools"], offers = _tools(_value(raw, "tools") or [])
    changes["tool_choice"] = _tool_choice(_value(raw, "tool_choice"), lost)
    _text(_value(raw, "text"), changes, lost)
    _reasoning(_value(raw, "reasoning"), changes, lost)
    if top_logprobs := _value(raw, "top_logprobs"):
        changes |= {"logprobs": True, "top_logprobs": top_logprobs}
    if _LOGPROBS in (_value(raw, "include") or ()):
        changes["logprobs"] = True
    if _value(raw, "previous_response_id") is not None:
        lost.append("previous_response_id")
    known = FORWARDED | MAPPED | KEPT
    for name, value in raw.items():
        if name not in known and bytes(value) not in {b"null", _SAYS_NOTHING.get(name, b"null")}:
            lost.append(name)
    fields |= {name: Raw(msgspec.json.encode(value)) for name, value in changes.items() if value is not None}
    return Translation(fields=fields, lost=tuple(lost), origins=ORIGINS, offers=offers)


def _value(raw: Mapping[str, Any], name: str) -> Any:
    return opened_field(raw, name) if name in raw else None


def _tools(tools: list[dict[str, Any]]) -> tuple[list[dict[str, Any]] | None, tuple[str, ...]]:
    """The tools that a chat can have, and the paths to those that only their provider runs."""
    out: list[dict[str, Any]] = []
    offers: list[str] = []
    for at, tool in enumerate(tools):
        if tool["type"] == "namespace":
            space, inner = tool.get("name") or "", _inner(tool.get("tools"), f"tools[{at}].tools")
            out += [_tool({**one, "name": spaced(space, one["name"])}) for one in inner if _runs_here(one)]
            offers += [f"tools[{at}].tools[{n}]" for n, one in enumerate(inner) if not _runs_here(one)]
        elif _runs_here(tool):
            out.append(_tool(tool))
        else:
            offers.append(f"tools[{at}]")
    return out or None, tuple(offers)


def _inner(tools: Any, where: str) -> list[dict[str, Any]]:
    """The tools inside something else, which no schema has looked at.

    Raises:
        InvalidRequest: they are none.
    """
    if not isinstance(tools or [], list):
        raise InvalidRequest(f"{where} must be array", param=where)
    for at, tool in enumerate(tools or ()):
        if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
            raise InvalidRequest(f"{where}[{at}] must be object with a type", param=f"{where}[{at}]")
    return tools or []


def _runs_here(tool: dict[str, Any]) -> bool:
    """Whether the client runs it: its provider has no part in that."""
    return tool["type"] in {"function", "custom"} and isinstance(tool.get("name"), str)


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    kind = tool["type"]
    fields = {name: value for name, value in tool.items() if name != "type"}
    form = fields.get("format")
    if kind == "custom" and isinstance(form, dict) and form.get("type") == "grammar":
        fields["format"] = {"type": "grammar", "grammar": {name: form[name] for name in form if name != "type"}}
    return {"type": kind, kind: fields}


def _tool_choice(choice: Any, lost: list[str]) -> Any:
    if not isinstance(choice, dict):
        return choice
    kind = text_of(choice.get("type"))
    if kind in {"function", "custom"}:
        return {"type": kind, kind: {"name": choice.get("name")}}
    if kind == "allowed_tools":
        tools, _ = _tools(_inner(choice.get("tools"), "tool_choice.tools"))
        return {"type": kind, kind: {"mode": choice.get("mode", "auto"), "tools": tools or []}}
    lost.append("tool_choice")
    return None


def _text(text: dict[str, Any] | None, changes: dict[str, Any], lost: list[str]) -> None:
    for name, value in (text or {}).items():
        if name == "verbosity":
            changes["verbosity"] = value
        elif name == "format":
            changes["response_format"] = _response_format(value)
        elif value is not None:
            lost.append(f"text.{name}")


def _response_format(shape: dict[str, Any] | None) -> dict[str, Any] | None:
    if shape is None or shape["type"] == "text":
        return None
    if shape["type"] != "json_schema":
        return shape
    return {"type": "json_schema", "json_schema": {name: value for name, value in shape.items() if name != "type"}}


def _reasoning(reasoning: dict[str, Any] | None, changes: dict[str, Any], lost: list[str]) -> None:
    """How much to think goes on; what to tell of it (``summary``) is ours: all that the model shows is told."""
    for name, value in (reasoning or {}).items():
        if name == "effort":
            changes["reasoning_effort"] = value
        elif name not in {"summary", "generate_summary"} and value is not None:
            lost.append(f"reasoning.{name}")
