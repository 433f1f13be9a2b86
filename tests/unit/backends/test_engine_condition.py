"""What `GET /v1/engine` tells of an engine, out of its own words."""

from types import SimpleNamespace
from typing import Any

from backends._engine_condition import condition
from backends._engine_life import EngineLife
from embedded_engine.condition import Facts, Ready, SelfTest
from embedded_engine.measured import CostPoint, Drafts

READY = Ready(
    model="m",
    path="/secret/m.gguf",
    sha256="ab",
    quantisation="Q8_0",
    description="llama",
    kernels="ik_llama",
    context_tokens=512,
    kv_tokens=1024,
    slots=2,
    queue_limit=8,
    vocabulary_tokens=100,
    has_chat_template=True,
    self_test=SelfTest(
        rows=64,
        max_logit_error=0.5,
        argmax_flips=1,
        micro_batch_rows=31,
        prefill_tokens_per_s=100.0,
        decode_s_per_token=0.02,
    ),
    verify_costs=(CostPoint(1, 0.02), CostPoint(4, 0.03)),
    batch_costs=(CostPoint(1, 0.02), CostPoint(4, 0.04)),
)
FACTS = Facts(
    queued=1,
    running=2,
    free_kv_tokens=300,
    steps=7,
    tokens_per_s=9.0,
    prefill_tokens_per_s=8.0,
    drafts=(Drafts(source="repetition", drafts=2, drafted=10, accepted=4),),
)


def _life(**parts: Any) -> EngineLife:
    life = EngineLife()
    life.ready = READY
    life.engine = parts.get("engine")
    return life


def test_what_it_is_and_does() -> None:
    """Curves are relative to one row: what a call of several costs, and how much more it computes a second."""
    told = condition(_life(engine=SimpleNamespace(alive=True, facts=FACTS)))
    assert told["down"] is None
    assert ("m", "ab", "Q8_0", "ik_llama") == tuple(
        told[name] for name in ("model", "sha256", "quantisation", "kernels")
    )
    assert [1.0, 1.5] == [point["cost"] for point in told["verify_costs"]]
    assert [1.0, 2.0] == [point["gain"] for point in told["batch_costs"]]
    assert (1, 2, 300) == tuple(told["now"][name] for name in ("queued", "running", "free_kv_tokens"))
    (drafts,) = told["drafts"]
    assert ("repetition", 0.4) == (drafts["drafter"], drafts["acceptance"])
    assert "secret" not in str(told)


def test_an_engine_that_is_away_is_remembered() -> None:
    """What it was stays; what it does now nobody knows."""
    told = condition(_life())
    assert ("m", None, []) == (told["model"], told["now"], told["drafts"])
    assert told["down"]
