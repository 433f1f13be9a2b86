"""What the embedded engine is and does, as ``GET /v1/engine`` tells it."""

from collections.abc import Sequence
from typing import Any

from backends._engine_life import EngineLife
from embedded_engine.condition import Facts, Ready
from embedded_engine.measured import CostPoint, Drafts


def condition(life: EngineLife) -> dict[str, Any]:
    """What is known; before the engine is ready for the first time that is only why it is not."""
    ready, engine = life.ready, life.engine
    facts = engine.facts if engine is not None else None
    return {
        "down": life.down,
        **(_standing(ready) if ready is not None else {}),
        "now": _now(facts) if facts is not None else None,
        "drafts": [_acceptance(it) for it in facts.drafts] if facts is not None else [],
    }


def _standing(ready: Ready) -> dict[str, Any]:
    tested = ready.self_test
    return {
        "model": ready.model,
        "sha256": ready.sha256,
        "quantisation": ready.quantisation,
        "description": ready.description,
        "kernels": ready.kernels,
        "context_tokens": ready.context_tokens,
        "kv_tokens": ready.kv_tokens,
        "slots": ready.slots,
        "queue_limit": ready.queue_limit,
        "chats": ready.has_chat_template,
        "thinks": ready.thinks,
        "tool_format": ready.tool_format,
        "keeps_prefixes": ready.keeps_prefixes,
        "drafters": list(ready.drafters),
        "numerics": {
            "rows": tested.rows,
            "max_logit_error": tested.max_logit_error,
            "argmax_flips": tested.argmax_flips,
            "micro_batch_rows": tested.micro_batch_rows,
        },
        "prefill_tokens_per_s": tested.prefill_tokens_per_s,
        "decode_s_per_token": tested.decode_s_per_token,
        "verify_costs": _curve(ready.verify_costs, "cost"),
        "batch_costs": _curve(ready.batch_costs, "gain"),
    }


def _now(facts: Facts) -> dict[str, Any]:
    return {
        "queued": facts.queued,
        "running": facts.running,
        "free_kv_tokens": facts.free_kv_tokens,
        "prefix_tokens": facts.prefix_tokens,
        "steps": facts.steps,
        "tokens_per_s": facts.tokens_per_s,
        "prefill_tokens_per_s": facts.prefill_tokens_per_s,
    }


def _acceptance(drafts: Drafts) -> dict[str, Any]:
    share = drafts.accepted / drafts.drafted if drafts.drafted else 0.0
    return {
        "drafter": drafts.source,
        "drafts": drafts.drafts,
        "drafted_tokens": drafts.drafted,
        "accepted_tokens": drafts.accepted,
        "acceptance": share,
    }


def _curve(points: Sequence[CostPoint], kind: str) -> list[dict[str, Any]]:
    """Seconds, and relative to one row: what a call costs, or how many times more it computes a second."""
    if not points or points[0].seconds <= 0:
        return []
    one = points[0].seconds
    return [
        {
            "rows": point.rows,
            "seconds": point.seconds,
            kind: point.seconds / one if kind == "cost" else point.rows * one / point.seconds,
        }
        for point in points
    ]
