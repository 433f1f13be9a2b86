"""Embeddings, echo and prompt log-probabilities of SmolLM2-135M-Instruct, through both kernels."""

import math
from itertools import count
from typing import Any

import numpy as np
import pytest

from embedded_engine.engine import Engine
from embedded_engine.messages import Done, Echo, Embed, Embedded, Generate, Text, TokenLogprob
from embedded_engine.speculative import Speculative
from tests.integration.embedded_engine.alone import ROUNDING

pytestmark = pytest.mark.model

_numbers = count(70_000)
_RIVER = "A river begins in the hills, where small streams meet 🌊"


def _events(engine: Engine, *requests: Generate | Embed) -> list[Any]:
    for request in requests:
        prepared = engine.prepare_embedding(request) if isinstance(request, Embed) else engine.prepare(request)
        engine.submit(prepared)
    events: list[Any] = []
    while engine.busy:
        events += engine.step()
    return events


def _vectors(engine: Engine, *texts: str) -> np.ndarray:
    events = _events(engine, Embed(id=next(_numbers), texts=texts))
    return np.stack([np.frombuffer(event.vector, "<f4") for event in events if isinstance(event, Embedded)])


def _entries(events: list[Any], kind: type[Echo | Text]) -> list[TokenLogprob]:
    return [entry for event in events if isinstance(event, kind) for entry in event.logprobs]


def _rounding(engine: Engine) -> float:
    """How far a log-probability of a row may be off that was computed among others."""
    return 0.0 if engine.ready.self_test.max_logit_error == 0 else ROUNDING


def test_what_means_the_same_points_the_same_way(engine: Engine) -> None:
    """576 numbers of length 1; a long text is read in parts, beside a stream, to the same vector."""
    cat, kitten, tax = _vectors(
        engine,
        "A cat sleeps on the warm sofa.",
        "A kitten is asleep on the warm couch.",
        "The tax return must be filed by the end of May.",
    )
    assert (576,) == cat.shape
    assert math.isclose(1, float(np.linalg.norm(cat)), rel_tol=1e-5)
    assert cat @ kitten > cat @ tax
    long = _RIVER * 4
    (alone,) = _vectors(engine, long)
    number = next(_numbers)
    stream = Generate(id=next(_numbers), text="One, two,", max_tokens=20, ignore_eos=True, seed=1)
    events = _events(engine, stream, Embed(id=number, texts=(long,)))
    (beside,) = [np.frombuffer(event.vector, "<f4") for event in events if isinstance(event, Embedded)]
    assert alone @ beside > 0.999


def test_a_likely_text_scores_better_and_the_prompt_comes_back(engine: Engine) -> None:
    """Its tokens' log-probabilities are those of any harness: the first has none, sense beats nonsense."""
    scores = []
    for text in ("The capital of France is Paris.", "The capital of France is spoons."):
        events = _events(engine, Generate(id=next(_numbers), text=text, max_tokens=0, echo=True, logprobs=1))
        assert text == "".join(event.text for event in events if isinstance(event, Echo))
        entries = _entries(events, Echo)
        assert text == b"".join(entry.chosen.piece or b"" for entry in entries).decode()
        assert None is entries[0].chosen.logprob
        scores.append(sum(entry.chosen.logprob or 0 for entry in entries))
        assert [("length", 0)] == [(e.reason, e.completion_tokens) for e in events if isinstance(e, Done)]
    assert scores[0] > scores[1] + 3


def test_an_answer_scores_what_it_scored_when_it_was_drawn(engine: Engine) -> None:
    """Prompt and answer read as one prompt; the kernels' rounding is all that differs."""
    ask = Generate(id=next(_numbers), text=_RIVER, max_tokens=30, seed=4, echo=True, logprobs=3)
    events = _events(engine, ask)
    prompt, answer = _entries(events, Echo), _entries(events, Text)
    tokens = tuple(entry.chosen.token for entry in (*prompt, *answer))
    again = _events(engine, Generate(id=next(_numbers), token_ids=tokens, max_tokens=0, echo=True, logprobs=3))
    for first, second in zip((*prompt, *answer), _entries(again, Echo), strict=True):
        assert abs((first.chosen.logprob or 0) - (second.chosen.logprob or 0)) <= _rounding(engine)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_drafted_or_not_the_emitted_tokens_have_their_own_logprobs(engine: Engine, temperature: float) -> None:
    """As far as the texts agree, and with kernels that round alike to their ends."""
    text = "one two three four five. one two three four five. one two three four"
    answers = []
    for enabled in (True, False):
        speculative = Speculative(enabled=enabled)
        ask = Generate(
            id=next(_numbers),
            text=text,
            max_tokens=30,
            seed=2,
            logprobs=5,
            top_p=0.3,
            temperature=temperature,
            speculative=speculative,
        )
        events = _events(engine, ask)
        (done,) = [event for event in events if isinstance(event, Done)]
        answers.append(_entries(events, Text))
        assert done.completion_tokens == len(answers[-1])
        assert enabled or not any(draft.drafted for draft in done.measured.drafts)
    drafted, plain = answers
    if engine.ready.self_test.max_logit_error == 0:
        assert [entry.chosen.token for entry in plain] == [entry.chosen.token for entry in drafted]
    for first, second in zip(drafted, plain, strict=False):
        if first.chosen.token != second.chosen.token:
            break
        assert abs((first.chosen.logprob or 0) - (second.chosen.logprob or 0)) <= _rounding(engine)
        assert 5 == len(first.top)
