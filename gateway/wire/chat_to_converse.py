"""A chat as the body of AWS Bedrock's ``Converse`` and ``ConverseStream``, for backends that speak them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from gateway.request_fields import NEVER_MATTERS, says_nothing
from gateway.types import ChatRequest
from gateway.wire.cannot_carry import cannot_carry
from gateway.wire.chat_to_anthropic import thinking_budget_tokens
from gateway.wire.chat_turns_to_converse import Fields, cache_point, converse_turns
from gateway.wire.json_body import opened_fields

RENAMED: Mapping[str, str] = MappingProxyType({"temperature": "temperature", "top_p": "topP"})
"""Fields of the same meaning, by their names in ``inferenceConfig``."""

MAPPED = frozenset(
    {
        "function_call",
        "functions",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "model",
        "reasoning_effort",
        "response_format",
        "service_tier",
        "stop",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
    }
)
"""Fields that go on under another name or in another form."""

CARRIES = RENAMED.keys() | MAPPED | {"stream", "stream_options"}
"""All that reaches such a backend."""

_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh"}
_TIERS = frozenset({"priority", "default", "flex", "reserved"})
_SAID_TOKENS = 4096
"""What a thinking model may say where the client sets no limit: Converse's own default may be less than a thought."""
_MOST_CACHE_POINTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ConverseTerms:
    """What models of Converse know differently.

    ``thinking`` is how an effort is told: as the ``budget`` of Claude's older models, or as the ``effort`` of others.
    ``cache_marks`` says whether they take marks of the prompt cache.
    """

    thinking: Literal["budget", "effort"] = "budget"
    cache_marks: bool = True


def converse_body(request: ChatRequest, terms: ConverseTerms) -> bytes:
    """The body for ``request``, which is in the shape of a chat.

    Raises:
        UpstreamRefused: something in it has no place there, which ``param`` names.
    """
    raw = request.raw
    given = opened_fields(raw, [name for name in raw if not says_nothing(name, raw[name])])
    for name in sorted(given.keys() - CARRIES - NEVER_MATTERS):
        raise cannot_carry(name)
    system, messages = converse_turns(given.get("messages") or [], cache_marks=terms.cache_marks)
    body: Fields = {"messages": messages}
    if system:
        body["system"] = system
    _tools(given, body, terms)
    config = {there: given[here] for here, there in RENAMED.items() if here in given}
    if request.max_tokens is not None:
        config["maxTokens"] = request.max_tokens
    if stop := given.get("stop"):
        config["stopSequences"] = [stop] if isinstance(stop, str) else stop
        body["additionalModelResponseFieldPaths"] = ["/stop_sequence"]
    further: Fields = {"top_k": given["top_k"]} if "top_k" in given else {}
    output = _shape(given.get("response_format"))
    _thinking(given, terms, config, further, output)
    if given.get("service_tier") in _TIERS:
        body["serviceTier"] = {"type": given["service_tier"]}
    told = {"inferenceConfig": config, "additionalModelRequestFields": further, "outputConfig": output}
    body |= {name: fields for name, fields in told.items() if fields}
    _keep_cache_points(body)
    return msgspec.json.encode(body)


def _tools(given: Fields, body: Fields, terms: ConverseTerms) -> None:
    tools: list[Fields] = []
    for at, tool in enumerate(given.get("tools") or ()):
        tools += _tool(tool, f"tools[{at}]")
        if terms.cache_marks:
            tools += cache_point(tool) or cache_point(tool["function"])
    for at, function in enumerate(given.get("functions") or ()):
        tools += _tool({"function": function}, f"functions[{at}]")
    if not tools:
        return
    name = "tool_choice" if given.get("tool_choice") is not None else "function_call"
    if given.get(name) != "none":
        body["toolConfig"] = {"tools": tools, **_choice(given.get(name), name)}
    elif any({"toolUse", "toolResult"} & block.keys() for turn in body["messages"] for block in turn["content"]):
        # There is no such word: who has no tools calls none, but earlier calls want theirs to be there.
        raise cannot_carry(name)


def _choice(choice: Any, name: str) -> Fields:
    match choice:
        case None:
            return {}
        case "auto":
            return {"toolChoice": {"auto": {}}}
        case "required":
            return {"toolChoice": {"any": {}}}
        case {"type": "function", "function": {"name": str(function)}} | {"name": str(function)}:
            return {"toolChoice": {"tool": {"name": function}}}
        case _:
            raise cannot_carry(name)


def _tool(tool: Fields, where: str) -> list[Fields]:
    function = tool.get("function")
    if tool.get("type", "function") != "function" or not isinstance(function, dict):
        raise cannot_carry(where)
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    made: Fields = {"name": function.get("name"), "inputSchema": {"json": {"type": "object", **schema}}}
    if function.get("description"):
        made["description"] = function["description"]
    if function.get("strict") is not None:
        made["strict"] = function["strict"]
    return [{"toolSpec": made}]


def _shape(response_format: Any) -> Fields:
    match response_format:
        case None:
            return {}
        case {"type": "json_schema", "json_schema": {"schema": dict(schema), **rest}}:
            named = {name: rest[name] for name in ("name", "description") if isinstance(rest.get(name), str)}
            shape = {"schema": msgspec.json.encode(schema).decode(), **named}
            return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": shape}}}
        case _:
            raise cannot_carry("response_format")


def _thinking(given: Fields, terms: ConverseTerms, config: Fields, further: Fields, output: Fields) -> None:
    """How hard to think: a client of Anthropic's has said it in Claude's own words."""
    effort = given.get("reasoning_effort")
    if terms.thinking == "budget":
        if "thinking" in given:
            further["thinking"] = given["thinking"]
        elif effort is not None:
            budget_tokens = thinking_budget_tokens(effort, config.get("maxTokens"))
            config.setdefault("maxTokens", budget_tokens + _SAID_TOKENS)
            further["thinking"] = {"type": "enabled", "budget_tokens": budget_tokens}
    elif effort is not None:
        if effort not in _EFFORTS:
            raise cannot_carry("reasoning_effort")
        output["effort"] = _EFFORTS[effort]
    elif "thinking" in given:
        raise cannot_carry("thinking")


def _keep_cache_points(body: Fields) -> None:
    """At most four may be set: the first, which stands before most, stays, and of the others the last ones."""
    places = [body.get("toolConfig", {}).get("tools", []), body.get("system", [])]
    places += [turn["content"] for turn in body["messages"]]
    points = [(place, block) for place in places for block in place if "cachePoint" in block]
    for place, point in points[1 : len(points) - _MOST_CACHE_POINTS + 1]:
        place[:] = [block for block in place if block is not point]
