"""The embedded engine's card, made of what its kernels said about themselves at load."""

from embedded_engine.condition import Ready
from gateway.card import Card


def card_of(ready: Ready) -> Card:
    """How the engine computes its model, and whether answers are those of the same file, token by token.

    ``verified`` where the self-test found no difference in any logit and no two texts share a memory; ``measured``
    otherwise, for texts side by side can turn a tie, which the self-test, running alone, does not see.
    """
    test, alone = ready.self_test, ready.slots <= ready.lanes
    exact = test.max_logit_error == 0 and test.argmax_flips == 0
    tokens = f"{test.argmax_flips} of {test.rows} likeliest tokens"
    found = f"self-test at load, rows together against rows alone: {tokens} differ, logits by {test.max_logit_error:g}"
    beside = "one text in each memory" if alone else f"several of {ready.slots} texts at once are not in it"
    strict = "" if exact else "; exactness: strict computes close calls alone"
    return Card(
        precision=ready.quantisation.lower(),
        engine=f"headrace embedded ({ready.kernels})",
        speculation=" ".join(ready.drafters) or "none",
        equivalence="verified" if exact and alone else "measured",
        evidence=f"{found}; {beside}{strict}",
    )
