"""A chat as the body of Anthropic's Messages, for backends that speak Anthropic's format."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from gateway.request_fields import NEVER_MATTERS, says_nothing
from gateway.types import ChatRequest
from gateway.wire.cannot_carry import cannot_carry
from gateway.wire.chat_turns_to_anthropic import Fields, turns_of
from gateway.wire.json_body import opened_fields

FORWARDED = frozenset({"stream", "temperature", "top_k", "top_p"})
"""Fields of the same name and meaning in both."""

MAPPED = frozenset(
    {
        "function_call",
        "functions",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "model",
        "parallel_tool_calls",
        "reasoning_effort",
        "response_format",
        "stop",
        "thinking",
        "tool_choice",
        "tools",
        "user",
    }
)
"""Fields that go on under another name or in another form."""

CARRIES = FORWARDED | MAPPED | {"cache_control", "stream_options"}
"""All that reaches such a backend; ``cache_control`` is Anthropic's own, which OpenAI's clients may send too."""

MOST_CACHE_MARKS = 4
_LEAST_BUDGET_TOKENS = 1024
_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 24576, "xhigh": 32768}
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh"}
_DISABLE = frozenset({"reasoning_effort", "thinking"})
"""Whose quiet values are said all the same: some models think unless they are told not to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a chat may leave open and Anthropic wants to know.

    ``max_tokens`` where the client sets none. ``thinking`` is how an effort is told to the model: as the ``budget``
    that older models take, or as the ``effort`` with which newer ones decide for themselves.
    """

    max_tokens: int
    thinking: Literal["budget", "effort"]


def anthropic_body(request: ChatRequest, model: str, terms: Terms) -> bytes:
    """The body for ``request``, which is in the shape of a chat.

    Raises:
        UpstreamRefused: something in it has no place there, which ``param`` names.
    """
    raw = request.raw
    given = opened_fields(raw, [name for name in raw if name in _DISABLE or not says_nothing(name, raw[name])])
    for name in sorted(given.keys() - CARRIES - NEVER_MATTERS):
        raise cannot_carry(name)
    system, messages = turns_of(given.get("messages") or [])
    limit = request.max_tokens if request.max_tokens is not None else terms.max_tokens
    body: Fields = {"model": model, "max_tokens": limit, "messages": messages}
    if system:
        body["system"] = system
    body |= {name: given[name] for name in sorted(FORWARDED & given.keys())}
    if stop := given.get("stop"):
        body["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if user := given.get("user"):
        body["metadata"] = {"user_id": user}
    _tools(given, body)
    _output(given, body, limit, terms)
    if given.get("cache_control") is not None:
        body["cache_control"] = given["cache_control"]
    _keep_cache_marks(body)
    return msgspec.json.encode(body)


def thinking_budget_tokens(effort: Any, limit_tokens: int | None) -> int:
    """How many tokens Claude may think at such an effort, where thoughts and answer together have ``limit_tokens``.

    Raises:
        UpstreamRefused: it knows no such effort, or there is no room for a thought.
    """
    if effort not in _BUDGETS:
        raise cannot_carry("reasoning_effort")
    if limit_tokens is None:
        return _BUDGETS[effort]
    if limit_tokens <= _LEAST_BUDGET_TOKENS:  # thoughts are a part of the answer's tokens
        raise cannot_carry("reasoning_effort")
    budget_tokens = max(min(_BUDGETS[effort], limit_tokens - _LEAST_BUDGET_TOKENS), _LEAST_BUDGET_TOKENS)
    return min(budget_tokens, limit_tokens - 1)


def _tools(given: Fields, body: Fields) -> None:
    tools = [_tool(tool, f"tools[{at}]") for at, tool in enumerate(given.get("tools") or ())]
    legacy = given.get("functions") or ()
    tools += [_tool({"function": function}, f"functions[{at}]") for at, function in enumerate(legacy)]
    if tools:
        body["tools"] = tools
    choice = _choice(given)
    if given.get("parallel_tool_calls") is False and tools:
        choice = {"disable_parallel_tool_use": True, **(choice or {"type": "auto"})}
        if choice["type"] == "none":
            del choice["disable_parallel_tool_use"]
    if choice is not None and tools:
        body["tool_choice"] = choice


def _tool(tool: Fields, where: str) -> Fields:
    function = tool.get("function")
    if tool.get("type", "function") != "function" or not isinstance(function, dict):
        raise cannot_carry(where)
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    made: Fields = {"name": function.get("name"), "input_schema": {"type": "object", **schema}}
    for name in ("description", "strict"):
        if function.get(name) is not None:
            made[name] = function[name]
    mark = tool.get("cache_control") or function.get("cache_control")
    return {**made, "cache_control": mark} if mark is not None else made


def _choice(given: Fields) -> Fields | None:
    choice: Fields | None
    name = "tool_choice" if given.get("tool_choice") is not None else "function_call"
    match given.get(name):
        case None:
            choice = None
        case "auto" | "none" as kind:
            choice = {"type": kind}
        case "required":
            choice = {"type": "any"}
        case {"type": "function", "function": {"name": str(function)}} | {"name": str(function)}:
            choice = {"type": "tool", "name": function}
        case _:
            raise cannot_carry(name)
    return choice


def _output(given: Fields, body: Fields, limit_tokens: int, terms: Terms) -> None:
    """How hard to think, and what the answer shall look like."""
    thinking, effort = given.get("thinking"), given.get("reasoning_effort")
    config: Fields = {}
    if thinking is not None:
        body["thinking"] = thinking
    elif effort == "none":
        body["thinking"] = {"type": "disabled"}
    elif effort is not None and terms.thinking == "effort":
        if effort not in _EFFORTS:
            raise cannot_carry("reasoning_effort")
        body["thinking"] = {"type": "adaptive"}
        config["effort"] = _EFFORTS[effort]
    elif effort is not None:
        body["thinking"] = {"type": "enabled", "budget_tokens": thinking_budget_tokens(effort, limit_tokens)}
    match given.get("response_format"):
        case None:
            pass
        case {"type": "json_schema", "json_schema": {"schema": schema}}:
            config["format"] = {"type": "json_schema", "schema": schema}
        case _:
            raise cannot_carry("response_format")
    if config:
        body["output_config"] = config


def _keep_cache_marks(body: Fields) -> None:
    """At most four marks may be set: the first, which stands before most, stays, and of the others the last ones."""
    marked = [block for block in _markable(body) if "cache_control" in block]
    room = MOST_CACHE_MARKS - ("cache_control" in body)
    if len(marked) > room:
        for block in marked[1 : len(marked) - room + 1]:
            del block["cache_control"]


def _markable(body: Fields) -> Iterator[dict[str, Any]]:
    """All that a mark may stand on, in the order in which the prompt is made of it."""
    yield from body.get("tools", ())
    yield from body.get("system", ())
    for message in body["messages"]:
        for block in message["content"]:
            yield block
            if isinstance(block.get("content"), list):
                yield from block["content"]
