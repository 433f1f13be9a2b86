from collections.abc import Callable
from typing import Any

import pytest
import zstandard
from msgspec.structs import replace

from gateway.decide import decide
from gateway.ledger.redaction import without_words
from gateway.rules.world import World
from gateway.stores.decision_facts import facts_of, pressed, read_facts
from gateway.types import Decision, LedgerEntry

_press = zstandard.ZstdCompressor().compress

POLICY = """
    backends:
      near: {use: fake, models: {m: {context_tokens: 4096, price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}}}}
      far: {use: fake, models: [m]}
      tiny: {use: fake, models: {m: {context_tokens: 16}}}
    routes: {r: {models: ["*"], targets: [near, far, tiny]}}
"""


@pytest.fixture
def decided(
    make_world: Callable[..., World], make_scene: Any, make_context: Any, make_request: Any, make_entry: Any, clock: Any
) -> tuple[World, LedgerEntry]:
    """An entry of a request that was decided on, without its words."""
    world = make_world(POLICY)
    ctx = make_context(make_request("a secret", model="m", max_tokens=50, n=2), prompt_tokens=500)
    scene = make_scene(clock, POLICY, ctx)
    decision = decide(world.routes[0], ctx, tuple(scene.look().values()))
    return world, without_words(make_entry(request=ctx.request, decision=decision))


def test_a_decision_can_be_made_anew_from_what_is_kept(decided: tuple[World, LedgerEntry]) -> None:
    """The same candidates, the same bills, the same order and the same exclusions."""
    world, entry = decided
    facts = read_facts(pressed(facts_of(entry) or b""))
    again = decide(world.routes[0], facts.ctx, facts.candidates)
    assert entry.decision is not None
    kept, made = (
        [(bill.candidate.backend, bill.candidate.in_flight, bill.terms, bill.total_usd) for bill in decision.order]
        for decision in (entry.decision, again)
    )
    assert kept == made
    assert [out.reason for out in entry.decision.excluded] == [out.reason for out in again.excluded]
    assert (("tiny",), 2) == (tuple(out.candidate.backend for out in again.excluded), len(again.order))
    assert (50, 2, "m") == (facts.ctx.request.max_tokens, facts.ctx.request.n, facts.ctx.request.model)


def test_nobody_s_words_are_kept(decided: tuple[World, LedgerEntry]) -> None:
    """Not even inside the decision's context."""
    _, entry = decided
    assert b"secret" not in (facts_of(entry) or b"")
    assert "secret" not in repr(entry.decision)


def test_eight_candidates_take_hardly_more_than_one(decided: tuple[World, LedgerEntry]) -> None:
    """They differ in little: pressed, all of them fit in a kilobyte and a half."""
    _, entry = decided
    assert entry.decision is not None
    bill = entry.decision.order[0]
    eight = tuple(
        replace(bill, candidate=replace(bill.candidate, backend=f"replica-{n}", in_flight=n)) for n in range(8)
    )
    sizes = [
        len(pressed(facts_of(replace(entry, decision=replace(entry.decision, order=order))) or b""))
        for order in (eight[:1], eight)
    ]
    assert sizes[0] < sizes[1] < min(1.8 * sizes[0], 1500)


def test_facts_are_read_whether_they_were_pressed_or_not(decided: tuple[World, LedgerEntry]) -> None:
    """Those of one candidate stay as they are, and once did not."""
    _, entry = decided
    assert entry.decision is not None
    facts = facts_of(replace(entry, decision=replace(entry.decision, order=entry.decision.order[:1], excluded=())))
    assert facts is not None
    assert facts == pressed(facts)
    assert read_facts(facts) == read_facts(_press(facts))


def test_what_was_never_decided_has_no_facts(make_entry: Callable[..., LedgerEntry]) -> None:
    """A request that was refused at the door."""
    assert facts_of(make_entry(decision=None)) is None
    assert facts_of(make_entry(decision=Decision(order=()))) is None


@pytest.mark.parametrize(
    "kept", [b"", b"nonsense", b"\x80", b"\x28\xb5\x2f\xfdnonsense", _press(b"\x80"), _press(b"words")]
)
def test_damaged_facts_are_a_sentence(kept: bytes) -> None:
    """For whoever asks to have them explained."""
    with pytest.raises(ValueError, match="the facts of this decision cannot be read"):
        read_facts(kept)
