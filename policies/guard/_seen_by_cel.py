"""What an expression sees of a request and its answer: plain values under a few names."""

from collections.abc import Sequence
from typing import Any

import msgspec

from gateway.guard import Seen
from gateway.judgement import Answer, Choice
from gateway.types import ChatRequest

NAMES = frozenset(
    {
        "answer",
        "finish_reason",
        "headers",
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "operation",
        "output_tokens",
        "parameters",
        "prompt_tokens",
        "stage",
        "stream",
        "system",
        "tenant",
        "text",
        "texts",
        "tool_calls",
        "tools",
    }
)
_NO_PARAMETERS = frozenset({"input", "instructions", "messages", "metadata", "prompt", "suffix", "system", "tools"})


def variables(seen: Seen, headers: Sequence[str]) -> dict[str, Any]:
    """The variables by their names; those of an answer are empty where there is none yet."""
    request = seen.request
    answer = seen.answer()
    first = answer.choices[0] if answer is not None and answer.choices else Choice()
    usage = answer.usage if answer is not None else None
    return {
        "stage": seen.stage.value,
        "model": request.model,
        "tenant": request.arrival.tenant,
        "operation": request.arrival.operation.value,
        "stream": request.stream,
        "max_tokens": request.max_tokens or 0,
        "texts": [text.text for text in seen.texts],
        "text": "\n".join([text.text for text in seen.texts]),
        "messages": [{"role": turn.role, "text": turn.text()} for turn in request.messages],
        "system": "\n".join([turn.text() for turn in request.messages if turn.role in {"system", "developer"}]),
        "tools": _tool_names(request),
        "parameters": _parameters(request),
        "metadata": _object(request, "metadata"),
        "headers": {name: value.decode("latin-1") for known in headers for name, value in _named(seen, known)},
        "answer": first.text,
        "finish_reason": first.finish_reason,
        "tool_calls": _calls(answer),
        "prompt_tokens": usage.prompt_tokens if usage is not None else 0,
        "output_tokens": usage.output_tokens if usage is not None else 0,
    }


def _named(seen: Seen, name: str) -> list[tuple[str, bytes]]:
    return [(name, value) for known, value in seen.headers if known == name.encode()]


def _value(request: ChatRequest, name: str) -> Any:
    raw = request.raw.get(name)
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _object(request: ChatRequest, name: str) -> dict[str, Any]:
    value = _value(request, name)
    return value if isinstance(value, dict) else {}


def _parameters(request: ChatRequest) -> dict[str, Any]:
    """The request's other fields, as far as they are text, numbers, true or false."""
    values = {name: _value(request, name) for name in request.raw if name not in _NO_PARAMETERS}
    return {name: value for name, value in values.items() if isinstance(value, str | int | float | bool)}


def _tool_names(request: ChatRequest) -> list[str]:
    tools = _value(request, "tools")
    names = []
    for tool in tools if isinstance(tools, list) else ():
        inner = tool.get("function") if isinstance(tool, dict) else None
        named = inner if isinstance(inner, dict) else tool
        if isinstance(named, dict) and isinstance(named.get("name"), str):
            names.append(named["name"])
    return names


def _calls(answer: Answer | None) -> list[dict[str, str]]:
    return [
        {"name": call.function.name, "arguments": call.function.arguments}
        for choice in (answer.choices if answer is not None else ())
        for call in choice.tool_calls
        if call.function is not None
    ]
