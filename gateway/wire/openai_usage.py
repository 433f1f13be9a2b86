"""OpenAI's ``usage`` object, read with tolerance and written in full."""

from typing import Any

from gateway.types import Usage


def read_usage(value: Any) -> Usage | None:
    """The counts of a parsed ``usage`` object, or ``None`` where it is no object or counts nothing.

    Cached tokens are taken from ``prompt_tokens_details`` or, where a provider puts them beside it (DeepSeek),
    from ``prompt_cache_hit_tokens``.
    """
    if not isinstance(value, dict) or not ("prompt_tokens" in value or "completion_tokens" in value):
        return None
    prompt_details = value.get("prompt_tokens_details")
    output_details = value.get("completion_tokens_details")
    cached_tokens = _count(prompt_details, "cached_tokens") or _count(value, "prompt_cache_hit_tokens")
    return Usage(
        prompt_tokens=_count(value, "prompt_tokens"),
        output_tokens=_count(value, "completion_tokens"),
        cached_tokens=cached_tokens,
        reasoning_tokens=_count(output_details, "reasoning_tokens"),
    )


def usage_object(usage: Usage) -> dict[str, Any]:
    """The ``usage`` object that says ``usage``."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _count(fields: Any, name: str) -> int:
    """A count of tokens, never negative; zero where a provider sends null, a word or nothing."""
    value = fields.get(name) if isinstance(fields, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    return max(int(value), 0)
