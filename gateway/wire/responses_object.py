"""The object that OpenAI's Responses answers with: the request's own settings, what came of it, and the counts."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from gateway.price import Usage
from gateway.types import ChatRequest
from gateway.wire.deltas import AnswerStart
from gateway.wire.openai_usage import cost_stated_in
from gateway.wire.upstream_json import text_of, tokens_at

# What an answer says of settings that the request left out.
_UNSAID: Mapping[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
_FUNCTION: Mapping[str, Any] = dict.fromkeys(("description", "parameters", "strict"))
_GOOD_ENDS = frozenset({"stop", "tool_calls", "function_call", ""})
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_REASONS = {"max_output_tokens": "length", "max_tokens": "length"}


def response_object(request: ChatRequest, start: AnswerStart, **outcome: Any) -> dict[str, Any]:
    """A response under way; ``outcome`` are the fields that differ."""
    created_unix_s = start.created_unix_s or int(request.arrival.received_unix_s)
    settings = {name: _said(request, name, unsaid) for name, unsaid in _UNSAID.items()}
    settings["tools"] = [_told(tool) for tool in msgspec.json.decode(request.raw.get("tools") or b"null") or ()]
    if request.remembered is not None and request.remembered.previous_id:
        settings["previous_response_id"] = request.remembered.previous_id
    return {
        "id": response_id(request),
        "object": "response",
        "created_at": created_unix_s,
        "completed_at": None,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": start.model or request.model,
        "output": [],
        **settings,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "usage": None,
        **outcome,
    }


def response_id(request: ChatRequest) -> str:
    """The name of the answer to ``request``: ours, whoever serves it, so that it can be asked for again."""
    return "resp_" + request.arrival.id.removeprefix("req_")


def ending(reason: str) -> dict[str, Any]:
    """Status and details of an answer that ended for the hub's ``reason``; one that nobody knows is no good end."""
    if reason in _GOOD_ENDS:
        return {"status": "completed", "incomplete_details": None}
    return {"status": "incomplete", "incomplete_details": {"reason": _INCOMPLETE.get(reason, reason)}}


def hub_reason(response: Mapping[str, Any]) -> str:
    """Why a finished response ended, in the hub's words."""
    details = response.get("incomplete_details")
    if response.get("status") == "incomplete":
        said = details.get("reason") if isinstance(details, dict) else None
        return _REASONS.get(said, said) if isinstance(said, str) else "length"
    output = response.get("output")
    items = output if isinstance(output, list) else []
    return "tool_calls" if any(_is_call(item) for item in items) else "stop"


def response_usage(usage: Usage) -> dict[str, Any]:
    """The ``usage`` object that says ``usage``; counts that are ours are marked ``estimated``."""
    fields: dict[str, Any] = {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
    }
    return {**fields, "estimated": True} if usage.estimated else fields


def read_response_usage(value: Any) -> Usage | None:
    """The counts of a parsed ``usage`` object; ``None`` where nobody counted, or absurdly."""
    if not isinstance(value, dict):
        return None
    prompt_tokens, output_tokens = tokens_at(value, "input_tokens"), tokens_at(value, "output_tokens")
    if not prompt_tokens and not output_tokens:
        return None
    details = value.get("input_tokens_details")
    return Usage(
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        cached_tokens=min(tokens_at(details, "cached_tokens"), prompt_tokens),
        cache_write_tokens=tokens_at(details, "cache_write_tokens"),
        reasoning_tokens=min(tokens_at(value.get("output_tokens_details"), "reasoning_tokens"), output_tokens),
        estimated=value.get("estimated") is True,
        stated_usd=cost_stated_in(value),
    )


def _said(request: ChatRequest, name: str, unsaid: Any) -> Any:
    value = request.raw.get(name)
    return unsaid if value is None or bytes(value) == b"null" else Raw(value)


def _told(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool as an answer repeats it: a function with all of its fields."""
    return {**_FUNCTION, **tool} if tool.get("type") == "function" else tool


def _is_call(item: Any) -> bool:
    return isinstance(item, dict) and text_of(item.get("type")) in {"function_call", "custom_tool_call"}
