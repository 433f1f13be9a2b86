"""`exactness: strict`: kernels that round differently in a batch change nothing."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from embedded_engine.engine import Engine
from embedded_engine.kernels.port import DecodeError, Logits, Row
from embedded_engine.messages import Generate
from embedded_engine.settings import EngineSettings
from embedded_engine.speculation.costs import StepCosts
from embedded_engine.speculative import Speculative
from tests.unit.embedded_engine.toy import Answers, ToyKernels, run

STRICT = Speculative(exactness="strict")


class Rounding(ToyKernels):
    """A model that repeats itself, and whose logits are a little off in every row that is not alone."""

    error = 0.15

    def _compute(self, history: tuple[int, ...], sequence: int, rows: int) -> Logits:
        logits = super()._compute(history[-2:], sequence, rows) * np.float32(1.5)
        if rows > 1:
            dice = np.random.default_rng(len(history))
            logits = logits + np.float32(self.error) * dice.uniform(-1, 1, len(logits)).astype(np.float32)
        return logits


class Exact(Rounding):
    """The same without the error."""

    error = 0.0


def _engine(kernels: ToyKernels) -> Engine:
    settings = EngineSettings(model_path="toy", context_tokens=200, threads=1, slots=4, lanes=2, step_tokens=48)
    engine = Engine(settings, kernels)
    engine._costs.cell_s = 0.0
    return engine


def _requests(temperature: float, **fields: Any) -> list[Generate]:
    return [
        Generate(id=n, text=text, max_tokens=40, seed=n, temperature=temperature, **fields)
        for n, text in enumerate(("abcabcabc", "once upon", "and then", "xyxyxyxy"))
    ]


def _texts(answers: Answers) -> list[str]:
    assert {} == answers.failed
    return [answers.text(number) for number in range(4)]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_strict_answers_are_those_of_kernels_that_never_round(temperature: float) -> None:
    """Four at once, with speculation; without `strict` at least one of them is another."""
    expected = _texts(run(_engine(Exact()), *_requests(temperature)))
    engine = _engine(Rounding())
    assert expected != _texts(run(engine, *_requests(temperature)))
    assert 0 == engine._verifier.recomputed_rows
    engine = _engine(Rounding())
    assert expected == _texts(run(engine, *_requests(temperature, speculative=STRICT)))
    assert 0 < engine._verifier.recomputed_rows < engine.drawn_tokens


def test_strict_costs_nothing_where_kernels_never_round() -> None:
    """The self-test has found no error: no row is computed twice."""
    engine = _engine(Exact())
    run(engine, *_requests(0.8, top_p=0.9, speculative=STRICT))
    assert 0 == engine._verifier.recomputed_rows


def test_choices_of_one_prompt_and_ends_are_strict_too() -> None:
    """The first tokens of three choices come from the prompt's rows; stops and penalties are as ever."""
    fields = {"n": 3, "stop": ("zq",), "presence_penalty": 0.4, "logprobs": 1}
    request = Generate(id=0, text="abcabc", max_tokens=20, seed=3, temperature=0.7, **fields, speculative=STRICT)
    exact, strict = run(_engine(Exact()), request), run(_engine(Rounding()), request)
    for choice in range(3):
        assert exact.text(0, choice) == strict.text(0, choice)
        assert exact.done[0, choice].completion_tokens == strict.done[0, choice].completion_tokens


def test_a_row_that_cannot_be_computed_again_fails_its_request_alone() -> None:
    """The others go on."""

    class Failing(Rounding):
        def decode(self, rows: Sequence[Row]) -> None:
            if len(rows) == 1 and self.armed and self.cells[rows[0].sequence][:1] == self.victim:
                raise DecodeError("no")
            super().decode(rows)

        armed = False
        victim: Any = None

    kernels = Failing()
    engine = _engine(kernels)
    for request in _requests(0.0, speculative=STRICT):
        engine.submit(engine.prepare(request))
    engine.step()
    kernels.armed, kernels.victim = True, kernels.cells[engine._scheduler.requests[1].choices[0].slot][:1]
    answers = Answers()
    while engine.busy:
        answers.take(engine.step())
    assert {1: "decode_failed"} == {number: failed.code for number, failed in answers.failed.items()}
    assert {0, 2, 3} == {number for number, _ in answers.done}


class _Dull(Rounding):
    """A draft model: something like the target."""

    def _compute(self, history: tuple[int, ...], sequence: int, rows: int) -> Logits:
        del rows
        return super()._compute(history, sequence, 1) + np.cos(np.arange(261, dtype=np.float32))


@pytest.fixture
def with_draft_model(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes an engine whose second model is loaded from "draft.gguf"."""

    def make(draft: ToyKernels | Exception) -> Engine:
        def load(_path: str, _name: str) -> ToyKernels:
            if isinstance(draft, Exception):
                raise draft
            return draft

        monkeypatch.setattr("embedded_engine.loading.load_kernels", load)
        settings = {"context_tokens": 100, "threads": 1, "slots": 2, "draft_model_path": "draft.gguf"}
        engine = Engine(EngineSettings(model_path="toy", **settings), Exact())
        engine._costs.cell_s = 0.0
        if engine._drafting._draft_model is not None:
            engine._drafting._draft_model.row_s = 0.0
            engine._drafting._costs = StepCosts({1: 1.0, 512: 1.001})
        return engine

    return make


def test_a_draft_model_saves_steps_and_changes_no_greedy_answer(with_draft_model: Any) -> None:
    """And it tells what it drafted; its sequences are free in the end."""
    requests = _requests(0.0)
    plain, engine = _engine(Exact()), with_draft_model(_Dull())
    expected, answers = run(plain, *requests), run(engine, *requests)
    assert _texts(expected) == _texts(answers)
    drafts = [draft for done in answers.done.values() for draft in done.measured.drafts]
    assert {"model"} <= {draft.source for draft in drafts}
    assert 0 < sum(draft.accepted for draft in drafts if draft.source == "model")
    model = engine._drafting._draft_model
    assert 0 == model.failures
    assert [0, 1] == sorted(model._free)


def test_it_is_left_out_where_it_cannot_be_exact_or_is_not_wanted(with_draft_model: Any) -> None:
    """Grammars go one way only, strict wants the tokens of plain decoding, and a request may say no."""
    engine = with_draft_model(_Dull())
    for speculative in (STRICT, Speculative(enabled=False)):
        answers = run(engine, *_requests(0.9, speculative=speculative))
        assert "model" not in {draft.source for done in answers.done.values() for draft in done.measured.drafts}


def test_a_draft_model_that_does_not_load_or_fit_is_done_without(
    with_draft_model: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A line in the log, and plain answers."""
    from embedded_engine.errors import LoadFailed

    class Foreign(_Dull):
        def piece(self, token: int, *, special: bool = False) -> bytes:
            return b"?" if token == 77 else super().piece(token, special=special)

    expected = _texts(run(_engine(Exact()), *_requests(0.0)))
    for trouble in (LoadFailed("out of memory"), Foreign()):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            engine = with_draft_model(trouble)
        assert 1 == len(caplog.records)
        assert expected == _texts(run(engine, *_requests(0.0)))
