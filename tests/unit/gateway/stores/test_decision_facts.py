from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pytest
import zstandard
from msgspec.structs import replace

from gateway.card import Card
from gateway.decide import decide
from gateway.forecast import Forecast
from gateway.ledger.redaction import without_words
from gateway.price import Price, PriceChange, PriceTier
from gateway.rules.world import World
from gateway.stores import facts_layout as layout
from gateway.stores.decision_facts import DecisionFacts, facts_of, pressed, read_facts
from gateway.success import Success
from gateway.task import Task, TaskBudget
from gateway.types import (
    Arrival,
    Bill,
    Candidate,
    Decision,
    Exclusion,
    LedgerEntry,
    Operation,
    TraceContext,
)
from gateway.worth import Deadline, Precedence, Worth

_press = zstandard.ZstdCompressor().compress

POLICY = """
    backends:
      near: {use: fake, models: {m: {context_tokens: 4096, price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}}}}
      far: {use: fake, models: [m]}
      tiny: {use: fake, models: {m: {context_tokens: 16}}}
    routes: {r: {models: ["*"], targets: [near, far, tiny]}}
"""


def _read(kept: bytes, arrival: Arrival) -> DecisionFacts:
    """The facts, with what the row has of the arrival."""
    row = {name: getattr(arrival, name) for name in layout.ROW}
    return read_facts(kept, {**row, "trace_id": arrival.trace.trace_id})


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
    facts = _read(pressed(facts_of(entry) or b""), entry.arrival)
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
    """They differ in little: pressed, each further one takes 32 bytes, and 250 as it is."""
    _, entry = decided
    assert entry.decision is not None
    bill = entry.decision.order[0]
    eight = tuple(
        replace(bill, candidate=replace(bill.candidate, backend=f"replica-{n}", in_flight=n)) for n in range(8)
    )
    one, many = (
        facts_of(replace(entry, decision=replace(entry.decision, order=order, excluded=()))) or b""
        for order in (eight[:1], eight)
    )
    assert 7 * 250 < len(many) - len(one)
    assert len(pressed(many)) < len(pressed(one)) + 7 * 32


def test_facts_have_a_place_for_each_field() -> None:
    """A field that is added to one of these is added to the layout too, or is missing where somebody asks for it."""
    described = {*layout.DESCRIBED, "operations", "translates"}
    assert described | {*layout.LIVE} == {*Candidate.__struct_fields__}
    begins = Candidate.__struct_fields__.index(layout.LIVE[0])
    assert layout.LIVE == Candidate.__struct_fields__[begins : begins + len(layout.LIVE)]
    assert [layout.FORECAST, layout.WORTH, layout.PRECEDENCE, ("trace_id", *layout.TRACE)] == [
        struct.__struct_fields__ for struct in (Forecast, Worth, Precedence, TraceContext)
    ]
    assert {*layout.ROW, *layout.ARRIVAL, "trace", "precedence"} == {*Arrival.__struct_fields__}
    assert {*DecisionFacts.__struct_fields__} == {*layout.FACTS, "deadline", "order", "excluded"}


def test_facts_come_back_as_they_were(decided: tuple[World, LedgerEntry]) -> None:
    """Every field of a candidate, and what few requests have; also of rows that give the names of the fields."""
    _, entry = decided
    assert entry.decision is not None
    assert entry.decision.ctx is not None
    full = Candidate(
        backend="b",
        model="m",
        operations=frozenset({Operation.CHAT, Operation.EMBEDDING}),
        capabilities=frozenset({"tools"}),
        carries=frozenset({"temperature"}),
        context_tokens=8192,
        price=Price(input_usd_per_mtok=Decimal("0.5"), cached_input_usd_per_mtok=Decimal("0.1")),
        in_flight=1,
        concurrency=2,
        queued_prefill_tokens=3,
        running_output_tokens=4,
        warm_tokens=5,
        prefill_tokens_per_s=6.0,
        seconds_per_token=7.0,
        failure_rate=0.8,
        wait_s=9.0,
        warm_elsewhere_tokens=10,
        held_tokens=11,
        waiting=12,
        first_token_p50_s=13.0,
        first_token_p90_s=14.0,
        too_long_tokens=15,
        down="it rests",
        retry_in_s=16.0,
        success=Success(p=0.1, mean=0.2, low=0.3, high=0.4, n=5.0, calls=6.0, drawn=True),
        goes_first=True,
        translates=frozenset({Operation.CHAT}),
        card=Card(precision="fp8", engine="e", speculation="none"),
        refuses=frozenset({"seed"}),
    )
    bill = Bill(candidate=full, terms=(("money", 0.5), ("wait", 0.25)), total_usd=0.75)
    arrival = replace(
        entry.arrival,
        session="s",
        deadline_s=1.5,
        task=Task(id="t", stage="plan", budget=TaskBudget(usd=Decimal("0.1"))),
        precedence=Precedence(priority="batch", weight=2.0),
        format_headers=(("anthropic-beta", "x"),),
        trace=TraceContext(trace_id="a" * 32, span_id="b" * 16, parent_id="c" * 16, sampled=False, state="d=e"),
    )
    ctx = replace(
        entry.decision.ctx,
        request=replace(entry.decision.ctx.request, arrival=arrival, stream=True, needs=frozenset({"tools"})),
        deadline=Deadline(total_s=3.0),
    )
    out = Exclusion(candidate=full, filter="fits", reason="it is too long", param="messages")
    decision = Decision(order=(bill, bill), excluded=(out,), ctx=ctx)
    facts = _read(facts_of(replace(entry, decision=decision)) or b"", arrival)
    assert (decision.order, decision.excluded) == (facts.order, facts.excluded)
    assert (arrival, ctx.deadline, ctx.forecast, ctx.worth) == (
        facts.arrival,
        facts.deadline,
        facts.ctx.forecast,
        facts.ctx.worth,
    )
    assert (True, frozenset({"tools"})) == (facts.stream, facts.needs)
    assert facts == read_facts(msgspec.msgpack.encode(facts), {})


def test_facts_are_read_whether_they_were_pressed_or_not(decided: tuple[World, LedgerEntry]) -> None:
    """Those of one candidate stay as they are, and once did not."""
    _, entry = decided
    assert entry.decision is not None
    facts = facts_of(replace(entry, decision=replace(entry.decision, order=entry.decision.order[:1], excluded=())))
    assert facts is not None
    assert facts == pressed(facts)
    assert _read(facts, entry.arrival) == _read(_press(facts), entry.arrival)


@pytest.mark.parametrize(
    "price",
    [
        None,
        Price(),
        Price(input_usd_per_mtok=Decimal(1), cached_input_usd_per_mtok=Decimal(0), request_usd=Decimal("0.01")),
        Price(service_tiers={"flex": PriceChange(input_usd_per_mtok=Decimal("0.5"))}),
        Price(tiers=(PriceTier(above_prompt_tokens=200_000, output_usd_per_mtok=Decimal(2)),)),
    ],
)
def test_a_price_comes_back_as_it_was(decided: tuple[World, LedgerEntry], price: Price | None) -> None:
    """What costs nothing is not what has no price of its own."""
    _, entry = decided
    assert entry.decision is not None
    bill = entry.decision.order[0]
    order = (replace(bill, candidate=replace(bill.candidate, price=price)),)
    facts = facts_of(replace(entry, decision=replace(entry.decision, order=order)))
    assert price == _read(facts or b"", entry.arrival).order[0].candidate.price


def test_what_was_never_decided_has_no_facts(make_entry: Callable[..., LedgerEntry]) -> None:
    """A request that was refused at the door."""
    assert facts_of(make_entry(decision=None)) is None
    assert facts_of(make_entry(decision=Decision(order=()))) is None


@pytest.mark.parametrize(
    "kept",
    [b"", b"nonsense", b"\x80", b"\x90", b"\x91\x01", b"\x28\xb5\x2f\xfdnonsense", _press(b"\x80"), _press(b"words")],
)
def test_damaged_facts_are_a_sentence(kept: bytes) -> None:
    """For whoever asks to have them explained."""
    with pytest.raises(ValueError, match="the facts of this decision cannot be read"):
        read_facts(kept, {})
