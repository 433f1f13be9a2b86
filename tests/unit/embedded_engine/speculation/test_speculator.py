"""The speculator as a whole: what it drafts, what it learns, what it tells."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from embedded_engine.speculation.costs import StepCosts
from embedded_engine.speculation.draft import Draft
from embedded_engine.speculation.features import FEATURES
from embedded_engine.speculation.first_weights import FIRST_WEIGHTS, REFEREE_WEIGHTS
from embedded_engine.speculation.speculator import Speculator
from embedded_engine.speculative import DRAFTERS, Speculative

FREE = {1: 1.0, 512: 1.001}
CPU = {1: 1.0, 2: 1.2, 4: 1.4, 8: 1.9, 16: 3.4}
END = 99
WORDS = [5, 6, 7, 8, 9, 10, 11, 12]


def _speculator(costs: dict[int, float] | None = None) -> Speculator:
    return Speculator(StepCosts(costs or FREE), end_tokens=frozenset({END}))


def _plan(speculator: Speculator, draft: Draft, **fields: Any) -> tuple[int, ...]:
    request = {"forced": [()], "most": [50], "room_rows": 50, **fields}
    return speculator.plan([draft], **request)[0]


def _decode(speculator: Speculator, draft: Draft, text: Sequence[int]) -> int:
    """Let the text come, greedily; returns how many steps it took."""
    at = steps = 0
    while at < len(text):
        drafted = _plan(speculator, draft, most=[len(text) - at - 1])
        emitted, probabilities = [], []
        for i in range(len(drafted) + 1):
            emitted.append(text[at + i])
            if i < len(drafted):
                probabilities.append(float(drafted[i] == text[at + i]))
            if i == len(drafted) or drafted[i] != text[at + i]:
                break
        speculator.learn(draft, drafted=drafted, emitted=emitted, probabilities=probabilities)
        at += len(emitted)
        steps += 1
    return steps


def _noise(length: int, seed: int = 1) -> list[int]:
    return random.Random(seed).choices(range(1000, 30_000), k=length)  # noqa: S311 - tokens, not secrets


def test_every_head_has_a_weight_for_each_feature() -> None:
    """And each drafter has its heads."""
    assert list(DRAFTERS) == list(FIRST_WEIGHTS) == list(REFEREE_WEIGHTS)
    assert {len(FEATURES)} == {len(weights) for weights in FIRST_WEIGHTS.values()}
    assert {3} == {len(weights) for weights in REFEREE_WEIGHTS.values()}


@pytest.mark.parametrize("source", ["repetition", "past_outputs", "prediction", "markov"])
def test_each_source_alone_saves_steps(source: str) -> None:
    """On a text that it can know, and the ledger names it and nobody else."""
    speculator = _speculator()
    text = _noise(40)
    prompt = text if source == "repetition" else []
    first = speculator.begin([], scope="s", wanted=Speculative(drafters=("past_outputs", "markov")))
    for _ in range(3):
        _decode(speculator, first, text)
    speculator.end(first)
    wanted = Speculative(drafters=(source,))
    draft = speculator.begin([*prompt, *text[:4]], scope="s", prediction=text[4:], wanted=wanted)
    assert _decode(speculator, draft, text[4:]) < 30
    assert {source} == set(draft.counts)


def test_nothing_is_drafted_of_noise() -> None:
    """At a CPU's cost: as many steps as tokens, but for a few."""
    speculator = _speculator(CPU)
    draft = speculator.begin(_noise(50), scope="s")
    assert _decode(speculator, draft, _noise(300, seed=2)) > 290


def test_what_repeats_itself_is_drafted_at_length() -> None:
    """At a CPU's cost."""
    speculator = _speculator(CPU)
    draft = speculator.begin(WORDS * 2, scope="s")
    assert _decode(speculator, draft, WORDS * 20) < 30


def test_what_is_forced_is_drafted_before_all_else() -> None:
    """Up to an end token, as far as there is room, also for requests that want no speculation."""
    speculator = _speculator(CPU)
    for wanted in (Speculative(), Speculative(enabled=False)):
        draft = speculator.begin([1, 2], scope="s", wanted=wanted)
        assert (3, 4, 5) == _plan(speculator, draft, forced=[(3, 4, 5)])
        assert (3, 4) == _plan(speculator, draft, forced=[(3, 4, 5)], most=[2])
        assert (3,) == _plan(speculator, draft, forced=[(3, 4, 5)], room_rows=1)
        assert (3,) == _plan(speculator, draft, forced=[(3, END, 5)])


def test_a_request_has_its_way() -> None:
    """Not at all, at most so many, only these sources."""
    speculator = _speculator()
    prompt = WORDS * 4
    for wanted, longest in (
        (Speculative(enabled=False), 0),
        (Speculative(n_max=0), 0),
        (Speculative(n_max=3), 3),
        (Speculative(drafters=()), 0),
        (Speculative(drafters=("past_outputs",)), 0),
        (Speculative(), 16),
    ):
        draft = speculator.begin(prompt, scope="s", wanted=wanted)
        speculator.learn(draft, drafted=(), emitted=[5], probabilities=[])
        drafted = _plan(speculator, draft)
        assert len(drafted) <= longest
        assert bool(drafted) == bool(longest)


def test_no_draft_is_longer_than_there_is_use_for() -> None:
    """Neither than the answer may still be, nor than the step has room for; and none holds an end."""
    speculator = _speculator()
    draft = speculator.begin([*WORDS, END, *WORDS, END, *WORDS[:3]], scope="s")
    speculator.learn(draft, drafted=(), emitted=[WORDS[3]], probabilities=[])
    assert tuple(WORDS[4:]) == _plan(speculator, draft)
    assert 2 == len(_plan(speculator, draft, most=[2]))
    assert 1 == len(_plan(speculator, draft, room_rows=1))
    assert () == _plan(speculator, draft, most=[0])


def test_room_is_shared_by_what_is_likely() -> None:
    """A request that repeats itself gets the rows, not one that says new things."""
    speculator = _speculator(CPU)
    sure = speculator.begin(WORDS * 9, scope="a")
    unsure = speculator.begin(_noise(30), scope="b")
    for draft, token in ((sure, 5), (unsure, 77)):
        speculator.learn(draft, drafted=(), emitted=[token], probabilities=[])
    long, short = speculator.plan([sure, unsure], forced=[(), ()], most=[50, 50], room_rows=8)
    assert len(long) > len(short)
    assert len(long) + len(short) <= 8


def test_rows_that_pay_for_much_memory_are_drafted_less() -> None:
    """A long text in the lane makes each row dearer."""
    speculator = _speculator(CPU)
    draft = speculator.begin(WORDS * 3, scope="s", temperature=1.0)
    speculator.learn(draft, drafted=(), emitted=[5], probabilities=[])
    cheap, dear = (len(_plan(speculator, draft, row_s=row_s)) for row_s in (0.0, 0.5))
    assert cheap > dear


def test_a_prediction_is_counted_by_what_was_tried_of_it() -> None:
    """Accepted and rejected tokens of the caller's prediction only, not of other drafts."""
    speculator = _speculator()
    text = _noise(30)
    draft = speculator.begin([1], scope="s", prediction=[*text[:10], *_noise(20, seed=5)])
    _decode(speculator, draft, text)
    assert 7 <= draft.accepted_prediction_tokens <= 10
    assert draft.rejected_prediction_tokens > 0
    other = speculator.begin(WORDS * 4, scope="s")
    _decode(speculator, other, WORDS * 4)
    assert (0, 0) == (other.accepted_prediction_tokens, other.rejected_prediction_tokens)


def test_confidence_is_kept_on_texts_that_are_right_half_of_the_time() -> None:
    """What is drafted with a confidence comes true as often, within .05 over all sources."""
    speculator = _speculator()
    dice = random.Random(6)  # noqa: S311 - tokens, not secrets
    for number in range(12):
        draft = speculator.begin(WORDS * 3, scope=str(number))
        text: list[int] = []
        for _ in range(40):
            text += WORDS[: dice.randint(1, 8)] if dice.random() < 0.7 else [dice.randrange(200, 9000)]
        _decode(speculator, draft, text)
    report = speculator.report().values()
    judged = sum(sum(source.judged) for source in report)
    assert judged > 1000
    assert sum(source.calibration_error * sum(source.judged) for source in report) / judged < 0.05


def test_counts_agree_between_the_ledger_and_the_choices() -> None:
    """By source, steps, drafted tokens and accepted ones."""
    speculator = _speculator()
    drafts = [speculator.begin(WORDS * 2, scope="s", prediction=WORDS) for _ in range(3)]
    for draft in drafts:
        _decode(speculator, draft, [*WORDS, 3, 4, *WORDS])
    report = speculator.report()
    assert report
    for source, account in report.items():
        assert account.drafts == sum(draft.counts[source].drafts for draft in drafts if source in draft.counts)
        assert account.drafted == sum(draft.counts[source].drafted for draft in drafts if source in draft.counts)
        assert account.accepted == sum(draft.counts[source].accepted for draft in drafts if source in draft.counts)
        assert 0 <= account.accepted <= account.drafted


def test_an_answer_that_ended_in_the_middle_of_a_draft_is_learned_from() -> None:
    """The end is not among the emitted tokens, but the draft in its place was wrong; nothing is miscounted."""
    speculator = _speculator()
    draft = speculator.begin(WORDS * 3, scope="s")
    speculator.learn(draft, drafted=(), emitted=[5], probabilities=[])
    drafted = _plan(speculator, draft)
    speculator.learn(draft, drafted=drafted, emitted=list(drafted[:2]), probabilities=[1.0, 1.0, 0.0])
    assert 2 == sum(count.accepted for count in draft.counts.values())
    assert 3 == sum(sum(source.judged) for source in speculator.report().values())
    speculator.end(draft)
