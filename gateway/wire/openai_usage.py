"""OpenAI's ``usage`` object, read with tolerance and written in full."""

from decimal import Decimal
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from gateway.price import Usage

_MOST_USD = 10**6
_TICKS_PER_USD = Decimal(10**10)
MAX_TOKENS = 10**9
"""Beyond what any context holds, and far below where sums of costs would run over."""

_Count = Annotated[int, Meta(ge=0, le=MAX_TOKENS)] | None


class _PromptDetails(Struct, gc=False):
    cached_tokens: _Count = None
    cache_write_tokens: _Count = None


class _OutputDetails(Struct, gc=False):
    reasoning_tokens: _Count = None


class UsualUsage(Struct, gc=False):
    """A ``usage`` object that a decoder can judge: its counts are counts, and it states no cost.

    Nearly all upstreams send nothing else. What does not decode to this is read by ``read_usage``, to the same effect.
    """

    prompt_tokens: _Count = None
    completion_tokens: _Count = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _OutputDetails | None = None
    prompt_cache_hit_tokens: _Count = None
    cost: None = None
    cost_in_usd_ticks: None = None

    def counted(self) -> Usage | None:
        """What was used, or ``None`` where it counts nothing."""
        prompt_tokens, output_tokens = self.prompt_tokens or 0, self.completion_tokens or 0
        if self.prompt_tokens is None and self.completion_tokens is None:
            return None
        cached_tokens, cache_write_tokens = self.prompt_cache_hit_tokens or 0, 0
        if (details := self.prompt_tokens_details) is not None:
            cached_tokens = details.cached_tokens or cached_tokens
            cache_write_tokens = details.cache_write_tokens or 0
        thoughts = self.completion_tokens_details
        return Usage(
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            cached_tokens=min(cached_tokens, prompt_tokens) if cached_tokens else 0,
            reasoning_tokens=thoughts.reasoning_tokens or 0 if thoughts is not None else 0,
            cache_write_tokens=cache_write_tokens,
            inconsistent=cached_tokens > prompt_tokens,
        )


def read_usage(value: Any) -> Usage | None:
    """The counts of a parsed ``usage`` object, or ``None`` where it is no object, counts nothing or is absurd.

    What an upstream says here is billed, learned from and summed up, so a count that no model could reach makes the
    whole object one that nobody counted. Cached tokens are taken from ``prompt_tokens_details`` or, where a provider
    puts them beside it (DeepSeek), from ``prompt_cache_hit_tokens``; they are a part of the prompt, so never more.
    What the upstream says that the answer costs is read by ``cost_stated_in``.
    """
    if not isinstance(value, dict):
        return None
    prompt_details = value.get("prompt_tokens_details")
    output_details = value.get("completion_tokens_details")
    prompt_tokens, output_tokens = _count(value, "prompt_tokens"), _count(value, "completion_tokens")
    cached_tokens = _count(prompt_details, "cached_tokens") or _count(value, "prompt_cache_hit_tokens") or 0
    reasoning_tokens = _count(output_details, "reasoning_tokens") or 0
    cache_write_tokens = _count(prompt_details, "cache_write_tokens") or 0
    if (prompt_tokens is None or prompt_tokens < 0) and (output_tokens is None or output_tokens < 0):
        return None
    counts = (prompt_tokens or 0, output_tokens or 0, cached_tokens, reasoning_tokens, cache_write_tokens)
    if max(counts) > MAX_TOKENS:
        return None
    negative = min(counts) < 0
    prompt_tokens, output_tokens, cached_tokens, reasoning_tokens, cache_write_tokens = (
        [max(count, 0) for count in counts] if negative else counts
    )
    return Usage(
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        cached_tokens=min(cached_tokens, prompt_tokens),
        reasoning_tokens=reasoning_tokens,
        cache_write_tokens=cache_write_tokens,
        inconsistent=negative or cached_tokens > prompt_tokens,
        stated_usd=cost_stated_in(value),
    )


class PredictionTokens(NamedTuple):
    """Of the text that the client predicted: tokens that came, and tokens that were tried in vain."""

    accepted: int = 0
    rejected: int = 0


_NO_PREDICTION = PredictionTokens()


def usage_object(usage: Usage, prediction: PredictionTokens = _NO_PREDICTION) -> dict[str, Any]:
    """The ``usage`` object that says ``usage``."""
    prompt_details = {"cached_tokens": usage.cached_tokens}
    if usage.cache_write_tokens:
        prompt_details["cache_write_tokens"] = usage.cache_write_tokens
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "prompt_tokens_details": prompt_details,
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens,
            "accepted_prediction_tokens": prediction.accepted,
            "rejected_prediction_tokens": prediction.rejected,
        },
    }


def _count(fields: Any, name: str) -> int | None:
    """A count of tokens, less than zero if it is; ``None`` where a provider sends null, a word or nothing."""
    value = fields.get(name) if isinstance(fields, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if value >= 0 else -1


def cost_stated_in(usage: dict[str, Any]) -> Decimal | None:
    """What a ``usage`` object says that the answer costs, in US dollars; ``None`` where it says nothing.

    OpenRouter has it in ``cost``; where it asked a provider with our own key there (``is_byok``), that is its fee, and
    what the provider takes stands in ``cost_details``. xAI counts ticks, 10^10 of them a dollar.
    """
    if "cost" in usage:
        own = stated_usd(usage["cost"])
        details = usage.get("cost_details")
        theirs = stated_usd(details.get("upstream_inference_cost")) if isinstance(details, dict) else None
        return own + theirs if usage.get("is_byok") is True and own is not None and theirs is not None else own
    if "cost_in_usd_ticks" in usage:
        ticks = _count(usage, "cost_in_usd_ticks")
        usd = ticks / _TICKS_PER_USD if ticks is not None and ticks >= 0 else None
        return usd if usd is not None and usd < _MOST_USD else None
    return None


def stated_usd(cost: Any) -> Decimal | None:
    """An amount in US dollars, with the digits as they came; ``None`` for what is no amount."""
    if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost < _MOST_USD:
        return None
    return Decimal(str(cost))
