"""Block verification, enumerated: drafts sampled from another model leave the law of the output as it is."""

from collections.abc import Callable, Hashable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from embedded_engine.sampling.parameters import Sampling
from embedded_engine.speculation.block_verification import acceptance, residual, verify_block
from tests.unit.embedded_engine.speculation.enumeration import (
    EnumeratedChooser,
    Law,
    Odds,
    Step,
    Text,
    TinyModel,
    decode,
    distance,
    law_of,
)

TOLERANCE = 1e-12
PENALISED = {"temperature": 0.9, "presence_penalty": 0.8, "frequency_penalty": 0.7, "top_k": 3}
SAMPLINGS = {"plain": {}, "penalised and cut": PENALISED, "greedy": {"temperature": 0.0}}

_Laws = list[NDArray[np.float64]]


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()


def _plain(chooser: EnumeratedChooser, model: TinyModel, text: Text, _: Text, __: Odds) -> Iterator[int]:
    token = chooser.draw(model.logits(text)).token
    chooser.advance(token)
    yield token


class Blocks:
    """A step that samples a block from a small model and verifies it; its fields are the mistakes that one can make."""

    def __init__(self, length: int = 2, *, draft_salt: int = 77) -> None:
        self.length = length
        self.draft_salt = draft_salt
        self.sharpen = 1.0
        self.argmax = False
        self.peeks = False
        self.misses_drafts = False
        self.draft_key: Callable[[int, int], Hashable] = lambda position, i: ("draft", position, i)
        self.accept_key: Callable[[int, int], Hashable] = lambda position, i: ("accept", position, i)
        self.choose_key: Callable[[int], Hashable] = lambda position: ("choose", position)

    def step(self, chooser: EnumeratedChooser, model: TinyModel, text: Text, _: Text, odds: Odds) -> Iterator[int]:
        """See `Step`."""
        start = chooser.position
        drafted, drafts = self._draft(model, text, odds, start)
        targets = self._targets(chooser, model, text, drafted)
        carried, chances = acceptance(drafted, targets, drafts)
        accept = []
        for i, chance in enumerate(chances[1:]):
            key = self.accept_key(start, i)
            odds.invert(key, [chance, 1 - chance])
            accept.append(odds.value(key))
        believed = max((i for i, chance in enumerate(chances) if i == 0 or accept[i - 1] < chance), default=0)
        odds.invert(self.choose_key(start), residual(believed, carried, targets, drafts))
        verdict = verify_block(drafted, targets, drafts, accept=accept, choose=odds.value(self.choose_key(start)))
        for token in (*drafted[: verdict.accepted], verdict.token):
            chooser.advance(token)
            yield token

    def _draft(self, model: TinyModel, text: Text, odds: Odds, start: int) -> tuple[Text, _Laws]:
        small = TinyModel(model.vocabulary, salt=self.draft_salt)
        drafted: Text = ()
        laws: _Laws = []
        for i in range(self.length):
            history = (*text, *drafted)
            law = _softmax((small.logits(history) + 2 * model.logits(history)) / 3)  # a small model that resembles it
            used = law**self.sharpen / (law**self.sharpen).sum()
            token = int(np.argmax(law)) if self.argmax else odds.invert(self.draft_key(start, i), used)
            if self.peeks and law[token] < 0.3:
                break
            drafted, laws = (*drafted, token), [*laws, law]
        return drafted, laws

    def _targets(self, chooser: EnumeratedChooser, model: TinyModel, text: Text, drafted: Text) -> _Laws:
        """p~ of each row, with the drafted tokens before it counted."""
        rows = [model.logits((*text, *drafted[:row])) for row in range(len(drafted) + 1)]
        if self.misses_drafts:
            return [chooser.law(row) for row in rows]
        ahead = EnumeratedChooser(model, chooser._chooser._sampling, (0,), Odds())
        for token in text[1:]:
            ahead.advance(token)
        laws = []
        for row, token in zip(rows, (*drafted, 0), strict=True):
            laws.append(ahead.law(row))
            ahead.advance(token)
        return laws


def _law(step: Step, sampling: str, *, vocabulary: int = 3, max_tokens: int = 2) -> Law:
    model, parameters = TinyModel(vocabulary, salt=5), Sampling(seed=0, **SAMPLINGS[sampling])
    return law_of(decode(step, model, parameters, draft=lambda _: (), max_tokens=max_tokens))


@pytest.mark.parametrize(
    ("length", "sampling"), [*((length, name) for length in (1, 2) for name in SAMPLINGS), (3, "plain"), (3, "greedy")]
)
def test_a_sampled_block_does_not_change_the_law_of_the_output(length: int, sampling: str) -> None:
    """Every text keeps its probability, an end inside the block and a block beyond the last token included."""
    assert distance(_law(_plain, sampling), _law(Blocks(length).step, sampling)) < TOLERANCE


def test_nor_with_four_tokens() -> None:
    """A larger vocabulary."""
    assert distance(_law(_plain, "plain", vocabulary=4), _law(Blocks(2).step, "plain", vocabulary=4)) < TOLERANCE


def test_nor_over_several_blocks() -> None:
    """The law of a text that takes two steps at least."""
    assert distance(_law(_plain, "plain", max_tokens=3), _law(Blocks(1).step, "plain", max_tokens=3)) < TOLERANCE


def test_a_draft_that_equals_the_target_is_accepted_whole() -> None:
    """Without exception."""
    targets = [np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.1, 0.3]), np.array([0.1, 0.1, 0.8])]
    for first in range(3):
        for second in range(3):
            verdict = verify_block((first, second), targets, targets[:2], accept=(0.999999, 0.999999), choose=0.15)
            assert (2, 1) == verdict


def test_what_the_target_rules_out_is_never_accepted() -> None:
    """Nor drawn after it, for any of the numbers."""
    targets = [np.array([0.0, 0.4, 0.6]), np.array([0.5, 0.5, 0.0])]
    for accept in (0.0, 0.5, 0.999):
        for choose in (0.0, 0.5, 0.999999):
            verdict = verify_block((0,), targets, [np.array([0.9, 0.05, 0.05])], accept=(accept,), choose=choose)
            assert 0 == verdict.accepted
            assert verdict.token in (1, 2)


def test_it_accepts_more_than_judging_token_by_token() -> None:
    """The paper's example: two tokens, p = (1/3, 2/3), q = (2/3, 1/3): 11/9 tokens of 2 against 10/9."""
    p, q = np.array([1 / 3, 2 / 3]), np.array([2 / 3, 1 / 3])

    def accepted(odds: Odds) -> Text:
        drafted = tuple(odds.invert(("draft", i), q) for i in range(2))
        _, chances = acceptance(drafted, [p] * 3, [q] * 2)
        held = [odds.invert(("accept", i), [h, 1 - h]) == 0 for i, h in enumerate(chances[1:])]
        return (max((i + 1 for i, holds in enumerate(held) if holds), default=0),)

    mean = sum(count * probability for (count,), probability in law_of(accepted).items())
    assert 11 / 9 == pytest.approx(mean, abs=TOLERANCE)


def _changed(**fields: object) -> Blocks:
    blocks = Blocks(2)
    for name, value in fields.items():
        setattr(blocks, name, value)
    return blocks


MUTANTS = {
    "q is not what the tokens were drawn from": (_changed(sharpen=2.0), "plain"),
    "a soft q for an argmax draft": (_changed(argmax=True), "plain"),
    "accepting shares the draft's noise": (_changed(accept_key=lambda at, i: ("draft", at, i)), "plain"),
    "drafting again uses the number of the draft that was rejected": (
        _changed(length=2, draft_key=lambda at, i: ("draft", at + i)),
        "plain",
    ),
    "all of a block shares one number": (_changed(accept_key=lambda at, _: ("accept", at)), "plain"),
    "the next token shares the accepting noise": (
        _changed(length=1, choose_key=lambda at: ("accept", at, 0)),
        "plain",
    ),
    "a truncation that looks at what it truncates": (_changed(peeks=True), "plain"),
    "penalties that miss drafted tokens": (_changed(misses_drafts=True), "penalised and cut"),
}


@pytest.mark.parametrize(("mutant", "sampling"), MUTANTS.values(), ids=MUTANTS)
def test_a_broken_verification_is_found(mutant: Blocks, sampling: str) -> None:
    """Each of these mistakes is far outside the tolerance of the tests above."""
    vocabulary = 3 if mutant.length > 1 else 4
    laws = [_law(step, sampling, vocabulary=vocabulary, max_tokens=2) for step in (_plain, mutant.step)]
    assert distance(*laws) > 1e6 * TOLERANCE
