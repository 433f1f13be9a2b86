"""Sample and match, enumerated: the law of the output is that of plain decoding, to the last bit but one."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from embedded_engine.kernels.port import Logits
from embedded_engine.sampling.chooser import Chooser, Drawn
from embedded_engine.sampling.parameters import Sampling
from embedded_engine.speculation.verification import walk
from tests.unit.embedded_engine.speculation.enumeration import (
    EnumeratedChooser,
    Odds,
    Step,
    Text,
    TinyModel,
    decode,
    distance,
    law_of,
)

TOLERANCE = 1e-12
MAX_TOKENS = 4

SAMPLINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "cold": {"temperature": 0.5},
    "greedy": {"temperature": 0.0},
    "penalties": {"repetition_penalty": 1.7, "presence_penalty": 0.6, "frequency_penalty": 0.9},
    "bias": {"logit_bias": ((0, -2.0), (1, 1.5))},
    "top-k": {"top_k": 2},
    "top-p": {"top_p": 0.6},
    "min-p": {"min_p": 0.4},
    "ends late": {"min_tokens": 2},
    "never ends": {"ignore_eos": True},
    "all at once": {
        "temperature": 0.8,
        "top_k": 3,
        "top_p": 0.9,
        "min_p": 0.05,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.5,
        "logit_bias": ((1, 0.7),),
    },
}

DRAFTS: dict[str, Callable[[Text], Text]] = {
    "nothing": lambda _: (),
    "one": lambda text: (text[-1],),
    "repetition": lambda text: (text * 4)[:3],
    "ends in the middle of the block": lambda text: (1, 2, len(text) % 2),
    "longer than the answer may be": lambda _: (1, 0, 1, 0, 1, 0),
    "cut by the scheduler": lambda text: (1, 0, 1)[: len(text) % 3],
}


def _plain(chooser: EnumeratedChooser, model: TinyModel, text: Text, _: Text, __: Odds) -> Iterator[int]:
    token = chooser.draw(model.logits(text)).token
    chooser.advance(token)
    yield token


def _ours(chooser: EnumeratedChooser, model: TinyModel, text: Text, drafted: Text, _: Odds) -> Iterator[int]:
    rows = lambda row: model.logits((*text, *drafted[:row]))  # noqa: E731 - what the kernels compute: rows of the draft
    for drawn, _probability in walk(chooser, rows, drafted):
        yield drawn.token


def _law(step: Step, sampling: dict[str, Any], draft: Callable[[Text], Text], vocabulary: int = 3) -> Any:
    model = TinyModel(vocabulary, salt=vocabulary)
    procedure = decode(step, model, Sampling(seed=0, **sampling), draft=draft, max_tokens=MAX_TOKENS)
    return law_of(procedure)


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
def test_no_draft_changes_the_law_of_the_output(draft: Callable[[Text], Text], sampling: dict[str, Any]) -> None:
    """Whatever is drafted, every text keeps its probability; three tokens, one of which ends it."""
    expected = _law(_plain, sampling, DRAFTS["nothing"])
    assert 1 == pytest.approx(sum(expected.values()))
    assert distance(expected, _law(_ours, sampling, draft)) < TOLERANCE


@pytest.mark.parametrize("vocabulary", [4, 5])
def test_nor_with_more_tokens(vocabulary: int) -> None:
    """Four and five tokens, everything in the pipeline on."""
    sampling = SAMPLINGS["all at once"]
    expected = _law(_plain, sampling, DRAFTS["nothing"], vocabulary)
    assert distance(expected, _law(_ours, sampling, DRAFTS["repetition"], vocabulary)) < TOLERANCE


def test_as_many_are_accepted_as_a_fixed_draft_allows() -> None:
    """E[accepted] is the sum over i of the product of p~ of the first i drafted tokens."""
    model, sampling, drafted = TinyModel(4, salt=9), Sampling(seed=0, temperature=1.3), (1, 0, 2)

    def accepted(odds: Odds) -> Text:
        chooser = EnumeratedChooser(model, sampling, (0,), odds)
        emitted = list(_ours(chooser, model, (0,), drafted, odds))
        return (len(emitted) - 1,)

    mean = sum(count * probability for (count,), probability in law_of(accepted).items())
    chooser = EnumeratedChooser(model, sampling, (0,), Odds())
    expected, product = 0.0, 1.0
    for position, token in enumerate(drafted):
        product *= chooser.law(model.logits((0, *drafted[:position])))[token]
        chooser.advance(token)
        expected += product
    assert expected == pytest.approx(mean, abs=TOLERANCE)


def test_no_row_behind_a_wrong_draft_is_looked_at() -> None:
    """Nor one behind the token at which the caller stops."""
    model, looked_at = TinyModel(4), []

    def rows(row: int) -> Any:
        looked_at.append(row)
        return model.logits((0, *(1, 2, 0)[:row]))

    for emitted in range(1, 4):
        looked_at.clear()
        odds = Odds()
        chooser = EnumeratedChooser(model, Sampling(seed=0), (0,), odds)
        for count, _ in enumerate(walk(chooser, rows, (0, 0, 0)), start=1):
            if count == emitted:
                break
        assert list(range(count)) == looked_at
    chooser = EnumeratedChooser(model, Sampling(seed=0, temperature=0, logit_bias=((3, 100.0),)), (0,), Odds())
    looked_at.clear()
    assert [3] == [drawn.token for drawn, _ in walk(chooser, rows, (1, 2, 0))]
    assert [0] == looked_at


def test_a_row_in_doubt_is_left_as_it_was() -> None:
    """The walk ends before it, having emitted what is certain; drawing there again gives what the walk had seen."""
    model, sampling = TinyModel(4), Sampling(seed=5, temperature=0)
    chooser, told = Chooser(sampling, choice=0, prompt=(0,)), Chooser(sampling, choice=0, prompt=(0,))
    said: Text = ()
    for _ in range(3):
        said = (*said, told.draw(model.logits((0, *said))).token)
        told.advance(said[-1])
    rows = [model.logits((0, *said[:row])) for row in range(4)]
    seen = []

    def doubts(drawn: Drawn, logits: Logits) -> bool:
        seen.append(drawn.token)
        return logits is rows[2]

    assert list(said[:2]) == [drawn.token for drawn, _ in walk(chooser, rows.__getitem__, said, doubts=doubts)]
    assert list(said) == seen
    assert said[2] == chooser.draw(rows[2]).token


def _penalties_miss_drafts(
    chooser: EnumeratedChooser, model: TinyModel, text: Text, drafted: Text, _: Odds
) -> Iterator[int]:
    """Broken: all rows are drawn before any of their tokens is counted."""
    laws = [chooser.law(model.logits((*text, *drafted[:row]))) for row in range(len(drafted) + 1)]
    for row, law in enumerate(laws):
        token = chooser._odds.invert(("draw", chooser.position), law)
        chooser.advance(token)
        yield token
        if row == len(drafted) or token != drafted[row]:
            return


def _shared_noise(chooser: EnumeratedChooser, model: TinyModel, text: Text, drafted: Text, _: Odds) -> Iterator[int]:
    """Broken: one number for all rows of a block."""
    block = ("block", chooser.position)
    for row in range(len(drafted) + 1):
        token = chooser.draw(model.logits((*text, *drafted[:row])), key=block).token
        chooser.advance(token)
        yield token
        if row == len(drafted) or token != drafted[row]:
            return


def _another_draw_after_a_wrong_draft(
    chooser: EnumeratedChooser, model: TinyModel, text: Text, drafted: Text, odds: Odds
) -> Iterator[int]:
    """Broken: what does not match is thrown away, and drawn again."""
    for row in range(len(drafted) + 1):
        logits = model.logits((*text, *drafted[:row]))
        token = chooser.draw(logits).token
        if row < len(drafted) and token != drafted[row]:
            token = odds.invert(("again", chooser.position), chooser.law(logits))
            chooser.advance(token)
            yield token
            return
        chooser.advance(token)
        yield token


def _soft_q_for_an_argmax_draft(
    chooser: EnumeratedChooser, model: TinyModel, text: Text, drafted: Text, odds: Odds
) -> Iterator[int]:
    """Broken: a draft that was not sampled is judged as if it had been, from a flat q."""
    q = 1 / model.vocabulary
    for row in range(len(drafted) + 1):
        law = chooser.law(model.logits((*text, *drafted[:row])))
        key = chooser.position
        if row == len(drafted):
            token = odds.invert(("draw", key), law)
        else:
            likely = min(1.0, float(law[drafted[row]]) / q)
            rejected = odds.invert(("accept", key), [likely, 1 - likely])
            left = (law - q).clip(0)
            token = odds.invert(("draw", key), left if left.sum() > 0 else law) if rejected else drafted[row]
        chooser.advance(token)
        yield token
        if row == len(drafted) or token != drafted[row]:
            return


MUTANTS = {
    "penalties that miss drafted tokens": (_penalties_miss_drafts, "penalties"),
    "one number for all rows": (_shared_noise, "plain"),
    "a second draw after a wrong draft": (_another_draw_after_a_wrong_draft, "plain"),
    "a soft q for an argmax draft": (_soft_q_for_an_argmax_draft, "plain"),
}


@pytest.mark.parametrize(("mutant", "sampling"), MUTANTS.values(), ids=MUTANTS)
def test_a_broken_walk_is_found(mutant: Step, sampling: str) -> None:
    """What the tests above are worth: each of these mistakes, all seen in the wild, is far outside their tolerance."""
    expected = _law(_plain, SAMPLINGS[sampling], DRAFTS["nothing"])
    assert distance(expected, _law(mutant, SAMPLINGS[sampling], DRAFTS["repetition"])) > 1e6 * TOLERANCE
