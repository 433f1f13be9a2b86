"""A second model that drafts: the law of the output stays, and its troubles are nobody's."""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from embedded_engine.kernels.port import ContextShape, Logits
from embedded_engine.sampling.chooser import Chooser
from embedded_engine.sampling.parameters import Sampling
from embedded_engine.speculation.costs import StepCosts
from embedded_engine.speculation.draft_model import Block, BlockDrafter, DraftModel, same_vocabulary, walk_block
from embedded_engine.vocabulary import Vocabulary
from tests.unit.embedded_engine.speculation.enumeration import TinyModel
from tests.unit.embedded_engine.toy import ToyKernels

PROMPT = (65, 66, 67)
DRAWS = 1500
CHI_SQUARE_LIMIT = 56.5
"""Fifteen degrees of freedom pass it once in a million."""


class Small(ToyKernels):
    """The toy, dulled: it resembles the target, and is none."""

    def _compute(self, history: tuple[int, ...], sequence: int, rows: int) -> Logits:
        logits = super()._compute(history[-3:], sequence, rows)
        return logits + np.float32(0.5) * np.cos(np.arange(len(logits), dtype=np.float32))


def _draft_model(kernels: ToyKernels | None = None, *, context_tokens: int = 64, sequences: int = 1) -> DraftModel:
    kernels = kernels or Small()
    shape = {"kv_tokens": 256, "sequences": sequences, "threads": 1, "batch_rows": 8, "micro_batch_rows": 8}
    kernels.open_context(ContextShape(**shape))
    return DraftModel(kernels, sequences=sequences, context_tokens=context_tokens, batch_rows=8, row_s=0.1)


def _target_rows(text: Sequence[int], block: Block) -> list[Logits]:
    """What a target that forgets all but three tokens says at each row."""
    target = ToyKernels()
    target.open_context(ContextShape(kv_tokens=9, sequences=1, threads=1, batch_rows=8, micro_batch_rows=8))
    whole = (*text, *block.tokens)
    return [target._compute(whole[:end][-3:], 0, 1) for end in range(len(text), len(whole) + 1)]


def _answer(drafter: BlockDrafter, sampling: Sampling, tokens: int) -> tuple[list[int], int]:
    chooser, text, steps = Chooser(sampling, choice=0, prompt=PROMPT), list(PROMPT), 0
    while len(text) - len(PROMPT) < tokens:
        block = drafter.draft(text, chooser, 3)
        text += [emitted.token for emitted in walk_block(chooser, _target_rows(text, block), block)]
        steps += 1
    return text[len(PROMPT) :][:tokens], steps


def _plain(sampling: Sampling, tokens: int) -> list[int]:
    chooser, text = Chooser(sampling, choice=0, prompt=PROMPT), list(PROMPT)
    for _ in range(tokens):
        text.append(chooser.draw(_target_rows(text, Block((), ()))[0]).token)
        chooser.advance(text[-1])
    return text[len(PROMPT) :]


def test_greedy_answers_are_those_of_plain_decoding() -> None:
    """Penalties and bias included, and in fewer steps."""
    sampling = Sampling(seed=1, temperature=0, presence_penalty=0.3, logit_bias=((70, 2.0),))
    drafter = _draft_model().follow(len(PROMPT))
    assert drafter is not None
    answer, steps = _answer(drafter, sampling, 40)
    assert _plain(sampling, 40) == answer
    assert steps < 40


def test_the_same_seed_gives_the_same_answer_again() -> None:
    """With a draft model; another seed gives another."""
    answers = []
    for seed in (4, 4, 5):
        drafter = _draft_model().follow(len(PROMPT))
        assert drafter is not None
        answers.append(_answer(drafter, Sampling(seed=seed, temperature=0.9, top_k=40), 20)[0])
    assert answers[0] == answers[1] != answers[2]


def test_the_first_two_tokens_have_the_law_of_the_target() -> None:
    """Chi-square over pairs of four tokens, 1,500 seeds; a true law fails once in a million times."""
    target, small = TinyModel(4, salt=3), TinyModel(4, salt=8)
    sampling = {"temperature": 2.0, "presence_penalty": 1.5}
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(DRAWS):
        chooser = Chooser(Sampling(seed=seed, **sampling), choice=0, prompt=(0,))
        text: tuple[int, ...] = (0,)
        while len(text) < 3:
            block = _tiny_block(small, chooser, text)
            rows = [target.logits((*text, *block.tokens[:row])) for row in range(3)]
            text = (*text, *(emitted.token for emitted in walk_block(chooser, rows, block)))
        counts[text[1:3]] += 1
    chooser = Chooser(Sampling(seed=0, **sampling), choice=0, prompt=(0,))
    expected = {}
    for first, p in enumerate(chooser.law(target.logits((0,)))):
        ahead = chooser.fork()
        ahead.advance(first)
        for second, q in enumerate(ahead.law(target.logits((0, first)))):
            expected[first, second] = DRAWS * p * q
    assert min(expected.values()) > 5
    statistic = sum((counts[pair] - mean) ** 2 / mean for pair, mean in expected.items())
    assert statistic < CHI_SQUARE_LIMIT


def _tiny_block(small: TinyModel, chooser: Chooser, text: tuple[int, ...]) -> Block:
    ahead, tokens, laws = chooser.fork(), (), ()
    for i in range(2):
        law = ahead.law(small.logits((*text, *tokens)))
        token = int(np.searchsorted(np.cumsum(law), chooser.noise(1, i), side="right"))
        ahead.advance(token)
        tokens, laws = (*tokens, token), (*laws, law)
    return Block(tokens, laws)


def test_its_memory_holds_the_text_and_not_what_was_rejected() -> None:
    """After every step, and its sequence is free when the choice is over."""
    model = _draft_model()
    drafter, chooser, text = model.follow(3), Chooser(Sampling(seed=2), choice=0, prompt=PROMPT), list(PROMPT)
    assert drafter is not None
    for _ in range(8):
        block = drafter.draft(text, chooser, 3)
        assert [*text, *block.tokens[:-1]] == [cell.token for cell in model.kernels.cells[0]]
        text += [emitted.token for emitted in walk_block(chooser, _target_rows(text, block), block)]
    drafter.close()
    drafter.close()
    assert [] == model.kernels.cells[0]
    assert model.follow(3) is not None


def test_what_it_cannot_follow_is_decoded_without_it(caplog: pytest.LogCaptureFixture) -> None:
    """A prompt beyond its context, no sequence free: a count and a line, and nothing drafted."""
    model = _draft_model(context_tokens=10)
    with caplog.at_level(logging.WARNING):
        assert model.follow(10) is None
        assert model.follow(4) is not None
        assert model.follow(4) is None
    assert 2 == model.failures == len(caplog.records)


def test_a_text_that_reaches_the_end_of_its_context_is_drafted_no_further() -> None:
    """The blocks become shorter, and then empty; its kernels are never asked for more than there is."""
    model = _draft_model(context_tokens=12)
    drafter, chooser = model.follow(3), Chooser(Sampling(seed=2), choice=0, prompt=PROMPT)
    assert drafter is not None
    lengths = [len(drafter.draft((*PROMPT, *range(10, 10 + more)), chooser, 4).tokens) for more in range(12)]
    assert [4, 4, 4, 4, 4, 3, 2, 1, 0, 0, 0, 0] == lengths


def test_kernels_that_fail_cost_a_choice_its_drafts_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    """Out of memory in the middle of a block: plain decoding from there on, a count and a line."""
    kernels = Small()
    model = _draft_model(kernels)
    drafter = model.follow(3)
    assert drafter is not None
    sampling, failing = Sampling(seed=3, temperature=0), []
    kernels.fails = lambda _: bool(failing)
    answer, _ = _answer(drafter, sampling, 5)
    failing.append(True)
    with caplog.at_level(logging.WARNING):
        assert _plain(sampling, 12) == _answer(drafter, sampling, 12)[0]
    assert _plain(sampling, 5) == answer
    assert 1 == model.failures == len(caplog.records)
    failing.clear()
    assert model.follow(3) is not None


def test_it_drafts_as_much_as_pays() -> None:
    """The more, the more often it is right; and nothing where its own rows cost as much as the target's."""
    costs = StepCosts({1: 1.0, 16: 2.0})
    drafter = _draft_model().follow(3)
    assert drafter is not None
    first = drafter.length(costs, row_s=0.0, most=8)
    for _ in range(30):
        drafter.learn(4, 4)
    assert 0 < first < drafter.length(costs, row_s=0.0, most=8)
    assert 3 == drafter.length(costs, row_s=0.0, most=3)
    for _ in range(30):
        drafter.learn(4, 0)
    assert 0 == drafter.length(costs, row_s=0.0, most=8)


def test_another_vocabulary_is_seen() -> None:
    """One token that means something else is enough."""

    class Other(ToyKernels):
        def piece(self, token: int, *, special: bool = False) -> bytes:
            return b"?" if token == 77 else super().piece(token, special=special)

    vocabulary = Vocabulary(ToyKernels())
    assert same_vocabulary(vocabulary, Vocabulary(Small()))
    assert not same_vocabulary(vocabulary, Vocabulary(Other()))


def test_a_fork_goes_its_own_way() -> None:
    """Its penalties are not those of the chooser it came from."""
    sampling: dict[str, Any] = {"temperature": 1.0, "frequency_penalty": 1.0, "repetition_penalty": 1.2}
    chooser = Chooser(Sampling(seed=1, **sampling), choice=0, prompt=(1, 2))
    logits = np.zeros(5, np.float32)
    before, fork = chooser.law(logits), chooser.fork()
    fork.advance(3)
    assert before.tolist() == chooser.law(logits).tolist()
    assert fork.law(logits)[3] < before[3]
    assert 1 == pytest.approx(before.sum())
