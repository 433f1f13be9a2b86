"""What may be kept of an entry: nothing that people and models wrote to each other."""

from collections.abc import Callable

import pytest
from msgspec import Struct
from msgspec.structs import replace

from gateway.ledger.redaction import without_words
from gateway.types import Attempt, ChatRequest, Context, Decision, LedgerEntry, Outcome

_THOUGHT_ABOUT: dict[type[Struct], str] = {
    LedgerEntry: "arrival request route forecast decision attempts outcome ended_s chunks cache saved_usd guards",
    Decision: "order excluded ctx",
    Context: "request forecast worth deadline priced_only",
    Attempt: "backend model status started_s ended_s span_id first_token_s usage cost_usd cost_source cost_doubts "
    "answered_model error detail upstream_status last_token_s bursts foreseen_usd",
    Outcome: "status http_status finish_reason error detail shown_s",
}


def test_no_words_are_left(
    marked_entry: LedgerEntry, marker: str, make_context: Callable[[ChatRequest], Context]
) -> None:
    """Not in the request, not in the one that its decision was made on, not in what an upstream said."""
    request = marked_entry.request
    assert request is not None
    entry = replace(marked_entry, decision=Decision(order=(), ctx=make_context(request)))
    assert marker in repr(entry)
    kept = without_words(entry)
    assert marker not in repr(kept)
    assert (entry.arrival, request.model) == (kept.arrival, kept.request.model if kept.request is not None else "")


@pytest.mark.parametrize("struct", _THOUGHT_ABOUT, ids=lambda struct: str(struct.__name__))
def test_a_field_that_is_added_is_thought_about(struct: type[Struct]) -> None:
    """An entry is copied without its words: a new field is entered here, and taken out there if it can hold any."""
    assert {*_THOUGHT_ABOUT[struct].split()} == {*struct.__struct_fields__}
