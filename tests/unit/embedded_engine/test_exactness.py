"""Speculation changes how fast an answer comes, and nothing in it: on a model that is the same to the last bit.

Each feature of the sampling pipeline, at three temperatures, with drafters of every kind, the worst included.
"""

import dataclasses
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from embedded_engine.engine import Engine
from embedded_engine.kernels.port import Logits
from embedded_engine.measured import Measured
from embedded_engine.messages import ChatMessage, Done, Generate, GrammarText, Text
from embedded_engine.settings import EngineSettings
from embedded_engine.speculation.costs import StepCosts
from embedded_engine.speculation.draft import Draft
from embedded_engine.speculation.speculator import Speculator
from embedded_engine.speculative import Speculative
from embedded_engine.turns import Reasoning
from tests.unit.embedded_engine.toy import Answers, ToyKernels, run

END = 257
THINKS = (
    "{% for m in messages %}<|turn|>{{ m.role }}\n{{ m.content }}<|/turn|>{% endfor %}<|turn|>assistant\n"
    "{% if enable_thinking is not defined or enable_thinking %}<think>\n{% else %}<think>\n\n</think>\n\n{% endif %}"
)
FREE = StepCosts({1: 1.0, 512: 1.0001})
"""More rows cost nothing: everything that is likely at all is drafted."""

_TEMPERATURES = (0.0, 0.7, 1.2)
_FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "penalties": {"repetition_penalty": 1.3, "presence_penalty": 0.7, "frequency_penalty": 0.4},
    "bias": {"logit_bias": ((65, 6.0), (66, 5.5), (END, 1.0))},
    "top-k and top-p": {"top_k": 20, "top_p": 0.8},
    "min-p": {"min_p": 0.2},
    "n": {"n": 3},
    "stop": {"stop": ("A", "bb", "\u0001")},
    "ends late": {"min_tokens": 9, "logit_bias": ((END, 9.0),)},
    "never ends": {"ignore_eos": True, "logit_bias": ((END, 9.0),)},
    "logprobs": {"logprobs": 3},
    "logprobs up to a stop": {"logprobs": 1, "stop": ("b", "A")},
    "grammar": {"grammar": GrammarText(kind="regex", text="(ab|ba|[x-z]{2}){4,9}")},
}


class Drafting(Speculator):
    """Drafts what it is told to, likely or not."""

    def __init__(self, propose: Callable[[Draft], Sequence[int]]) -> None:
        super().__init__(FREE)
        self._propose = propose
        self.drafted = 0

    def plan(self, drafts: Sequence[Draft], *, room_rows: int, **_: Any) -> list[tuple[int, ...]]:
        """See `Speculator.plan`; the kernels take only so many rows."""
        planned = []
        for draft in drafts:
            planned.append(tuple(self._propose(draft))[:room_rows])
            room_rows -= len(planned[-1])
            self.drafted += len(planned[-1])
        return planned


class Forgetful(ToyKernels):
    """A model that repeats itself: it forgets all but the last two tokens, so that drafts are often right."""

    def _compute(self, history: tuple[int, ...], sequence: int, rows: int) -> Logits:
        return super()._compute(history[-2:], sequence, rows) * np.float32(2)


def _engine(speculator: Speculator | None, kernels: ToyKernels | None = None, **settings: Any) -> Engine:
    values = {"context_tokens": 200, "threads": 1, "slots": 4, "step_tokens": 48, **settings}
    engine_settings = EngineSettings(model_path="toy", speculation=speculator is not None, **values)
    engine = Engine(engine_settings, kernels or Forgetful())
    if speculator is not None:
        for who in (engine, engine._drafting, engine._verifier, engine._scheduler._begin.__self__):
            who._speculator = speculator
        engine._costs.cell_s = 0.0
    return engine


def _requests(**fields: Any) -> list[Generate]:
    return [
        Generate(**{"id": number, "text": text, "max_tokens": 30, "seed": 7 + number, **fields})
        for number, text in enumerate(("abcabcabc", "once upon", "\u00e9\u00e9"))
    ]


def _outcome(engine: Engine, requests: Sequence[Generate]) -> dict[tuple[int, int], tuple[Any, ...]]:
    """By request and choice: the text, the last event, and the log-probabilities."""
    answers, logprobs = Answers(), defaultdict(list)
    for request in requests:
        engine.submit(engine.prepare(request))
    while engine.busy:
        events = engine.step()
        answers.take(events)
        for event in events:
            if isinstance(event, Text):
                logprobs[event.id, event.choice] += event.logprobs
    assert {} == answers.failed
    return {key: (answers.text(*key), _unmeasured(done), logprobs[key]) for key, done in answers.done.items()}


def _unmeasured(done: Done) -> Done:
    return replace(done, measured=Measured())


def _oracle(requests: Sequence[Generate]) -> Callable[[Draft], Sequence[int]]:
    """Knows what will be said, for requests of one choice."""
    told = Drafting(lambda _: ())
    outputs: list[list[int]] = []
    told.end = lambda draft: outputs.append(draft.output)  # type: ignore[method-assign]
    run(_engine(told), *requests)

    def propose(draft: Draft) -> Sequence[int]:
        return next((o[len(draft.output) :] for o in outputs if o[: len(draft.output)] == draft.output), ())[:9]

    return propose


_dice = random.Random(3)  # noqa: S311 - tokens, not secrets
_DRAFTERS: dict[str, Callable[[Draft], Sequence[int]]] = {
    "at random": lambda _: [_dice.randrange(256) for _ in range(_dice.randrange(6))],
    "always wrong": lambda _: [200, 201, 202],
    "an end token": lambda _: [END, 65, END],
    "an end token in the middle": lambda draft: [*draft.output[-2:], END, 65],
    "control tokens": lambda _: [258, 256, 260],
    "longer than the answer may be": lambda draft: (draft.output or [65]) * 40,
}


@pytest.mark.parametrize("feature", _FEATURES)
@pytest.mark.parametrize("temperature", _TEMPERATURES)
def test_the_same_seed_gives_the_same_tokens_with_speculation_on_and_off(temperature: float, feature: str) -> None:
    """Text, reason, counts and log-probabilities."""
    requests = _requests(temperature=temperature, **_FEATURES[feature])
    speculator = Speculator(FREE, end_tokens=frozenset({END, 259}))
    expected = _outcome(_engine(None), requests)
    assert expected == _outcome(_engine(speculator), requests)
    if "stop" not in feature:  # a text that is over at once has no drafts
        assert sum(account.drafted for account in speculator.report().values()) > 0
    if feature == "logprobs":
        for _, done, logprobs in expected.values():
            assert done.completion_tokens == len(logprobs)
            assert all(-40 < entry.chosen.logprob < 0 for entry in logprobs)


@pytest.mark.parametrize("temperature", _TEMPERATURES)
def test_a_thinking_budget_ends_where_it_does_without_drafts(temperature: float) -> None:
    """Inside a block, too: the forced end of the thought, the answer after it, and what each is counted as."""
    requests = [
        Generate(
            id=bound,
            messages=(ChatMessage(role="user", content="why? why? why?"),),
            reasoning=Reasoning(max_tokens=bound),
            max_tokens=40,
            temperature=temperature,
            seed=bound,
        )
        for bound in (0, 5, 6, 7)
    ]
    speculator = Speculator(FREE, end_tokens=frozenset({END, 259}))
    outcomes = []
    for drafting in (None, speculator):
        engine = _engine(drafting, Forgetful(template=THINKS))
        outcomes.append(_outcome(engine, requests))
    assert outcomes[0] == outcomes[1]
    assert speculator.report()["forced"].drafted == speculator.report()["forced"].accepted > 0


@pytest.mark.parametrize("drafter", _DRAFTERS)
@pytest.mark.parametrize("temperature", _TEMPERATURES)
def test_no_draft_is_so_bad_that_it_changes_the_answer(temperature: float, drafter: str) -> None:
    """Whatever is drafted, with penalties that count the context and a stop string."""
    requests = _requests(temperature=temperature, presence_penalty=0.5, stop=("zz",))
    speculator = Drafting(_DRAFTERS[drafter])
    assert _outcome(_engine(None), requests) == _outcome(_engine(speculator), requests)
    assert speculator.drafted > 0


@pytest.mark.parametrize("temperature", _TEMPERATURES)
def test_who_knows_the_answer_saves_steps_and_changes_nothing(temperature: float) -> None:
    """A drafter that is always right, through max_tokens and the end of the text."""
    requests = _requests(temperature=temperature)
    plain, quick = _engine(None), _engine(Drafting(_oracle(requests)))
    assert _outcome(plain, requests) == _outcome(quick, requests)
    assert quick.steps < plain.steps / 3


def test_the_cells_of_rejected_drafts_are_dropped() -> None:
    """After each step every running sequence holds what was emitted and nothing else."""
    engine = _engine(Drafting(_DRAFTERS["always wrong"]))
    kernels = engine._kernels
    for request in _requests(temperature=0):
        engine.submit(engine.prepare(request))
    while engine.busy:
        engine.step()
        for choice in engine._scheduler.placed:
            assert choice.slot is not None
            assert choice.tokens[: choice.computed] == list(kernels.tokens(choice.slot))


def test_no_row_behind_a_wrong_draft_is_read() -> None:
    """A row's logits are looked at once, in order, and none that belongs to a text that was not written."""
    engine = _engine(Drafting(_DRAFTERS["always wrong"]))
    kernels, read = engine._kernels, []
    logits = kernels.logits
    kernels.logits = lambda row: read.append(row) or logits(row)
    run(engine, _requests(temperature=0.7)[0])
    assert engine.drawn_tokens <= len(read) <= engine.drawn_tokens + 1


def test_what_one_scope_was_told_speeds_up_no_other() -> None:
    """The same question again: many fewer steps in its scope, as many as ever in another."""
    steps = {}
    engine = _engine(Speculator(FREE, end_tokens=frozenset({END, 259})))
    for scope in ("a", "a", "b"):
        before = engine.steps
        run(engine, Generate(id=1, text="once upon", max_tokens=60, temperature=1.2, seed=3, scope=scope))
        steps.setdefault(scope, []).append(engine.steps - before)
    assert steps["a"][1] < steps["a"][0] / 2
    assert steps["b"] == steps["a"][:1]


def test_a_model_that_cannot_forget_a_tail_is_never_drafted_for() -> None:
    """Recurrent models: plain decoding, strict or not, and no drafters told."""
    kernels = Forgetful()
    kernels.facts = dataclasses.replace(kernels.facts, forgets_tails=False)
    kernels.remove = _whole_sequences_only(kernels.remove)
    engine = Engine(EngineSettings(model_path="toy", context_tokens=200, slots=4, threads=1, step_tokens=48), kernels)
    requests = _requests(temperature=0.7, speculative=Speculative(exactness="strict"))
    assert _outcome(_engine(None), requests) == _outcome(engine, requests)
    assert () == engine.ready.drafters


def _whole_sequences_only(remove: Callable[..., None]) -> Callable[..., None]:
    def checked(sequence: int, start: int = 0) -> None:
        assert start == 0
        remove(sequence)

    return checked


def test_speculation_that_knows_nothing_is_plain_decoding() -> None:
    """A drafter that proposes nothing costs no row."""
    requests = _requests(temperature=0)
    plain, idle = _engine(None), _engine(Drafting(lambda _: ()))
    plain._kernels.batches.clear()
    idle._kernels.batches.clear()
    assert _outcome(plain, requests) == _outcome(idle, requests)
    assert sum(map(len, plain._kernels.batches)) == sum(map(len, idle._kernels.batches))
