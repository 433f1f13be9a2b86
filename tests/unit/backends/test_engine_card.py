"""The engine's card claims no more than what its self-test has shown."""

from typing import Any

import pytest
from msgspec.structs import replace

from backends._engine_card import card_of
from embedded_engine.condition import Ready, SelfTest

READY = Ready(
    model="m",
    path="/secret/m.gguf",
    sha256="ab",
    quantisation="Q8_0",
    description="llama",
    kernels="ik_llama",
    context_tokens=512,
    kv_tokens=1024,
    slots=1,
    queue_limit=8,
    vocabulary_tokens=100,
    has_chat_template=True,
    self_test=SelfTest(
        rows=64,
        max_logit_error=0.0,
        argmax_flips=0,
        micro_batch_rows=31,
        prefill_tokens_per_s=100.0,
        decode_s_per_token=0.02,
    ),
    drafters=("repetition", "ngram"),
)


def test_it_says_what_the_engine_runs() -> None:
    """Precision as the file has it; no path."""
    card = card_of(READY)
    assert ("q8_0", "headrace embedded (ik_llama)", "repetition ngram") == (
        card.precision,
        card.engine,
        card.speculation,
    )
    assert "none" == card_of(replace(READY, drafters=())).speculation
    assert "secret" not in str(card)


@pytest.mark.parametrize(
    ("ready", "test", "expected"),
    [
        ({}, {}, "verified"),
        ({"slots": 8}, {}, "measured"),
        ({"slots": 8, "lanes": 8}, {}, "verified"),
        ({}, {"max_logit_error": 0.5}, "measured"),
        ({}, {"max_logit_error": 0.5, "argmax_flips": 2}, "measured"),
    ],
)
def test_only_what_differs_in_nothing_is_verified(ready: Any, test: Any, expected: str) -> None:
    """Several texts in one memory may turn a tie, which the self-test does not see; the evidence has the figures."""
    card = card_of(replace(READY, **ready, self_test=replace(READY.self_test, **test)))
    flips, error = test.get("argmax_flips", 0), test.get("max_logit_error", 0)
    assert expected == card.equivalence
    assert f"{flips} of 64 likeliest tokens differ, logits by {error:g}" in card.evidence
    assert bool(error) == ("exactness: strict" in card.evidence)
