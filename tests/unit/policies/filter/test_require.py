from typing import Any

import pytest

from gateway.card import Card
from policies.filter.require import Require


@pytest.mark.parametrize(
    ("required", "card", "reason"),
    [
        ({"precision": ("bf16", "fp16")}, Card(precision="fp16"), None),
        ({"precision": ("bf16", "fp16")}, Card(precision="fp8"), "its precision is fp8, and bf16 or fp16 is required"),
        ({"precision": ("bf16",)}, None, "its precision is unknown, and bf16 is required"),
        ({"engine": ("vllm",)}, Card(engine="sglang"), "its engine is sglang, and vllm is required"),
        ({"speculation": ("none",)}, Card(precision="bf16"), "its speculation is unknown, and none is required"),
        ({"equivalence": "verified"}, Card(), "its equivalence is unknown, and verified is required"),
        (
            {"equivalence": "verified"},
            Card(equivalence="claimed"),
            "its equivalence is claimed, and verified is required",
        ),
        ({"equivalence": "measured"}, Card(equivalence="verified"), None),
    ],
)
def test_what_the_card_does_not_say_is_not_enough(
    make_context: Any, make_candidate: Any, make_request: Any, required: Any, card: Card | None, reason: str | None
) -> None:
    """Each demand with its reason; unknown is not verified."""
    ctx = make_context(make_request("hi"))
    assert reason == Require(**required).exclude(ctx, make_candidate(card=card))


def test_a_filter_that_requires_nothing_is_a_mistake() -> None:
    """It would say nothing, and look as if it did."""
    with pytest.raises(ValueError, match="it requires nothing"):
        Require()
