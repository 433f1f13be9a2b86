"""A chat as the body of Gemini's ``generateContent``, for backends that speak Gemini's format."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from gateway.request_fields import NEVER_MATTERS, says_nothing
from gateway.types import ChatRequest
from gateway.wire.cannot_carry import cannot_carry
from gateway.wire.chat_turns_to_gemini import Fields, contents_of
from gateway.wire.json_body import opened_fields

RENAMED: Mapping[str, str] = MappingProxyType(
    {
        "frequency_penalty": "frequencyPenalty",
        "n": "candidateCount",
        "presence_penalty": "presencePenalty",
        "seed": "seed",
        "temperature": "temperature",
        "top_k": "topK",
        "top_p": "topP",
    }
)
"""Fields of the same meaning, by their names in ``generationConfig``."""

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
        "stop",
        "tool_choice",
        "tools",
    }
)
"""Fields that go on under another name or in another form."""

CARRIES = RENAMED.keys() | MAPPED | {"stream", "stream_options"}
"""All that reaches such a backend."""

Thinking = Literal["budget", "level"]
_BUDGETS = {"none": 0, "minimal": 1024, "low": 2048, "medium": 8192, "high": 24576}
_LEVELS = {"minimal": "minimal", "low": "low", "medium": "medium", "high": "high"}


def gemini_body(request: ChatRequest, thinking: Thinking) -> bytes:
    """The body for ``request``, which is in the shape of a chat.

    ``thinking`` is how an effort is told to the model: as a budget of tokens (Gemini 2.5) or as a level (3 and later).

    Raises:
        UpstreamRefused: something in it has no place there, which ``param`` names.
    """
    raw = request.raw
    given = opened_fields(
        raw, [name for name in raw if name == "reasoning_effort" or not says_nothing(name, raw[name])]
    )
    for name in sorted(given.keys() - CARRIES - NEVER_MATTERS):
        raise cannot_carry(name)
    system, contents = contents_of(given.get("messages") or [])
    body: Fields = {"contents": contents}
    if system:
        body["systemInstruction"] = {"parts": system}
    _tools(given, body)
    config = {there: given[here] for here, there in RENAMED.items() if here in given}
    if request.max_tokens is not None:
        config["maxOutputTokens"] = request.max_tokens
    if stop := given.get("stop"):
        config["stopSequences"] = [stop] if isinstance(stop, str) else stop
    config |= _shape(given.get("response_format"))
    config |= _thinking(given.get("reasoning_effort"), thinking)
    if config:
        body["generationConfig"] = config
    return msgspec.json.encode(body)


def _tools(given: Fields, body: Fields) -> None:
    tools = [_function(tool, f"tools[{at}]") for at, tool in enumerate(given.get("tools") or ())]
    legacy = given.get("functions") or ()
    tools += [_function({"function": function}, f"functions[{at}]") for at, function in enumerate(legacy)]
    if not tools:
        return
    body["tools"] = [{"functionDeclarations": tools}]
    name = "tool_choice" if given.get("tool_choice") is not None else "function_call"
    calling = _calling(given.get(name), name)
    if any((tool.get("function") or {}).get("strict") for tool in given.get("tools") or ()):
        calling = _strictly(calling)
    if calling is not None:
        body["toolConfig"] = {"functionCallingConfig": calling}


def _function(tool: Fields, where: str) -> Fields:
    function = tool.get("function")
    if tool.get("type", "function") != "function" or not isinstance(function, dict):
        raise cannot_carry(where)
    made: Fields = {"name": function.get("name")}
    if function.get("description"):
        made["description"] = function["description"]
    if function.get("parameters"):
        made["parametersJsonSchema"] = function["parameters"]
    return made


def _calling(choice: Any, name: str) -> Fields | None:
    match choice:
        case None:
            return None
        case "auto" | "none":
            return {"mode": choice.upper()}
        case "required":
            return {"mode": "ANY"}
        case {"type": "function", "function": {"name": str(function)}} | {"name": str(function)}:
            return {"mode": "ANY", "allowedFunctionNames": [function]}
        case _:
            raise cannot_carry(name)


def _strictly(calling: Fields | None) -> Fields | None:
    """A mode in which calls keep to their schemas: where the model may choose, that is one of its own."""
    return {"mode": "VALIDATED"} if calling is None or calling["mode"] == "AUTO" else calling


def _shape(response_format: Any) -> Fields:
    match response_format:
        case None:
            return {}
        case {"type": "json_object"}:
            return {"responseMimeType": "application/json"}
        case {"type": "json_schema", "json_schema": {"schema": schema}}:
            return {"responseMimeType": "application/json", "responseJsonSchema": schema}
        case _:
            raise cannot_carry("response_format")


def _thinking(effort: Any, thinking: Thinking) -> Fields:
    """Who says how hard to think wants to see what is thought, as far as it is shown."""
    if effort is None:
        return {}
    told: Mapping[str, Any] = _BUDGETS if thinking == "budget" else _LEVELS
    if effort not in told:
        raise cannot_carry("reasoning_effort")
    name = "thinkingBudget" if thinking == "budget" else "thinkingLevel"
    return {"thinkingConfig": {name: told[effort], "includeThoughts": effort != "none"}}
