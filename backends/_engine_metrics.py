"""What the engine measured of an answer, by the names that vLLM's and llama.cpp's clients know."""

from collections.abc import Sequence
from typing import Any

from embedded_engine.measured import Measured
from gateway.price import Usage

_MS = 1000.0


def measurements(choices: Sequence[Measured], usage: Usage) -> dict[str, Any]:
    """``metrics``, after vLLM, and ``timings``, after llama.cpp, of an answer of one or several choices.

    Times are those of the choice that took longest, counts the sums of all.
    """
    queue_s = max((it.queue_s for it in choices), default=0.0)
    prefill_s = max((it.prefill_s for it in choices), default=0.0)
    decode_s = max((it.decode_s for it in choices), default=0.0)
    drafts = _by_source(choices)
    later_tokens = max(usage.output_tokens - len(choices), 0)
    metrics = {
        "time_to_first_token_ms": _MS * (queue_s + prefill_s),
        "queue_time_ms": _MS * queue_s,
        "prefill_time_ms": _MS * prefill_s,
        "generation_time_ms": _MS * decode_s,
        "mean_itl_ms": _MS * decode_s * len(choices) / later_tokens if later_tokens else 0.0,
        "tokens_per_second": later_tokens / decode_s if decode_s else 0.0,
        "speculative_decoding": _speculative(drafts),
    }
    return {"metrics": metrics, "timings": _timings(usage, prefill_s, decode_s, drafts)}


def _by_source(choices: Sequence[Measured]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for draft in (draft for choice in choices for draft in choice.drafts):
        counts = found.setdefault(draft.source, dict.fromkeys(_COUNTS, 0))
        counts["num_drafts"] += draft.drafts
        counts["num_draft_tokens"] += draft.drafted
        counts["num_accepted_tokens"] += draft.accepted
    return found


_COUNTS = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")


def _speculative(drafts: dict[str, dict[str, int]]) -> dict[str, Any]:
    totals: dict[str, Any] = {name: sum(counts[name] for counts in drafts.values()) for name in _COUNTS}
    drafted = totals["num_draft_tokens"]
    rate = totals["num_accepted_tokens"] / drafted if drafted else 0.0
    return {**totals, "draft_acceptance_rate": rate, "by_drafter": drafts}


def _timings(usage: Usage, prefill_s: float, decode_s: float, drafts: dict[str, dict[str, int]]) -> dict[str, Any]:
    computed = max(usage.prompt_tokens - usage.cached_tokens, 0)
    timings: dict[str, Any] = {
        "cache_n": usage.cached_tokens,
        **_paced("prompt", computed, prefill_s),
        **_paced("predicted", usage.output_tokens, decode_s),
    }
    if drafted := sum(counts["num_draft_tokens"] for counts in drafts.values()):
        timings["draft_n"] = drafted
        timings["draft_n_accepted"] = sum(counts["num_accepted_tokens"] for counts in drafts.values())
    return timings


def _paced(kind: str, tokens: int, seconds: float) -> dict[str, Any]:
    return {
        f"{kind}_n": tokens,
        f"{kind}_ms": _MS * seconds,
        f"{kind}_per_token_ms": _MS * seconds / tokens if tokens else 0.0,
        f"{kind}_per_second": tokens / seconds if seconds else 0.0,
    }
