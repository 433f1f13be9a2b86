"""Anthropic's ``usage``, whose input leaves out what the cache read and wrote; ours includes both.

``Usage.prompt_tokens = input_tokens + cache_creation_input_tokens + cache_read_input_tokens``.
"""

from typing import Any

from gateway.price import Usage
from gateway.wire.openai_usage import MAX_TOKENS


class AnthropicCounts:
    """The counts of one answer. They come twice in a stream, cumulative: what is said later replaces, never adds."""

    __slots__ = ("_counts", "estimated")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.estimated = False

    def take(self, value: Any) -> None:
        """Takes note of a parsed ``usage`` object; what is no count, or an absurd one, says nothing."""
        if not isinstance(value, dict):
            return
        self.estimated = value.get("estimated") is True
        details = value.get("output_tokens_details")
        thinking = details.get("thinking_tokens") if isinstance(details, dict) else None
        for name, count in (*value.items(), ("thinking_tokens", thinking)):
            if type(count) is int and 0 <= count <= MAX_TOKENS:
                self._counts[name] = count

    @property
    def usage(self) -> Usage | None:
        """What they come to; ``None`` where nobody counted the output."""
        counts = self._counts
        if "output_tokens" not in counts:
            return None
        cached_tokens = counts.get("cache_read_input_tokens", 0)
        cache_write_tokens = counts.get("cache_creation_input_tokens", 0)
        return Usage(
            prompt_tokens=counts.get("input_tokens", 0) + cached_tokens + cache_write_tokens,
            output_tokens=counts["output_tokens"],
            cached_tokens=cached_tokens,
            cache_write_tokens=cache_write_tokens,
            reasoning_tokens=min(counts.get("thinking_tokens", 0), counts["output_tokens"]),
            estimated=self.estimated,
        )


def anthropic_usage(usage: Usage) -> dict[str, Any]:
    """The ``usage`` object that says ``usage``; counts that are ours are marked ``estimated``."""
    fresh_tokens = max(usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens, 0)
    fields: dict[str, Any] = {
        "input_tokens": fresh_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.reasoning_tokens:
        fields["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    if usage.estimated:
        fields["estimated"] = True
    return fields
