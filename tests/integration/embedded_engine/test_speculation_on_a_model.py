"""Speculation on SmolLM2-135M-Instruct, through both kernels: the same answers, and the right law."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
import pytest

from embedded_engine.engine import Engine
from embedded_engine.kernels.port import Row
from embedded_engine.messages import Generate
from embedded_engine.sampling.chooser import Chooser
from embedded_engine.sampling.parameters import Sampling
from embedded_engine.speculation.draft import Draft
from embedded_engine.speculation.verification import walk
from embedded_engine.speculative import Speculative
from tests.integration.embedded_engine.alone import LOGPROBS, ROUNDING, Alone
from tests.unit.embedded_engine.toy import run

pytestmark = pytest.mark.model

PROMPTS = {
    "code": "def area(w, h):\n    return w * h\n\ndef perimeter(w, h):\n    return",
    "cjk": "日本の首都は東京です。フランスの首都は",
    "repetitive": "red, green, blue, red, green, blue, red, green, blue, red,",
    "long": "The mill stands by the river. " * 12 + "The mill",
}
TOKENS = 10

_numbers = count(10_000)

Say = Callable[..., list[str]]


@pytest.fixture(scope="module")
def say(engine: Engine) -> Say:
    """What the engine says to some prompts that come at once, each token of it as likely as it is alone."""
    alone = Alone(engine)

    def texts(*prompts: str, **fields: Any) -> list[str]:
        asked = {"temperature": 0, "max_tokens": TOKENS, "logprobs": LOGPROBS, **fields}
        requests = [Generate(id=next(_numbers), text=prompt, **asked) for prompt in prompts]
        answers = run(engine, *requests)
        assert {} == answers.failed
        for request in requests:
            furthest = alone.furthest(
                engine.prepare(request).prompt, answers, request.id, greedy=not asked["temperature"]
            )
            assert furthest < ROUNDING, answers.text(request.id)
        return [answers.text(request.id) for request in requests]

    return texts


def _draft(engine: Engine, monkeypatch: pytest.MonkeyPatch, propose: Callable[[Draft], Sequence[int]]) -> None:
    """Let the engine draft what it is told, whatever it costs."""

    def plan(drafts: Sequence[Draft], *, most: Sequence[int], room_rows: int, **_: Any) -> list[tuple[int, ...]]:
        each = room_rows // max(1, len(drafts))
        return [tuple(propose(draft))[: max(0, min(each, limit))] for draft, limit in zip(drafts, most, strict=True)]

    monkeypatch.setattr(engine._speculator, "plan", plan)


@pytest.fixture(scope="module")
def plain(say: Say) -> list[str]:
    """What the model says without speculation, one request after the other."""
    return [say(prompt, speculative=Speculative(enabled=False))[0] for prompt in PROMPTS.values()]


def _is_exact(engine: Engine) -> bool:
    """Whether one caller's rows are the same to the last bit however many are computed together."""
    return engine.ready.self_test.max_logit_error == 0


def test_no_length_and_no_batch_changes_a_greedy_answer(engine: Engine, say: Say, plain: list[str]) -> None:
    """Drafts of up to 2 and 16 tokens, alone and four together, cold and with what was asked before remembered.

    Four together share lanes, and so do tokens whose likelihoods are nearly equal: each is held to its likelihood.
    """
    for n_max in (2, 16):
        speculative = Speculative(n_max=n_max)
        for _cold_then_warm in range(2):
            alone = [say(prompt, speculative=speculative, scope=str(n_max))[0] for prompt in PROMPTS.values()]
            assert alone == plain or not _is_exact(engine)
        say(*PROMPTS.values(), speculative=speculative)


def test_neither_a_bad_draft_nor_one_that_knows_changes_it(
    engine: Engine, say: Say, plain: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens that never come, and the very answer, which is quick."""
    outputs: list[list[int]] = []
    with monkeypatch.context() as listening:
        listening.setattr(engine._speculator, "end", lambda draft: outputs.append(draft.output))
        for prompt in PROMPTS.values():
            say(prompt, speculative=Speculative(enabled=False))

    def oracle(draft: Draft) -> Sequence[int]:
        so_far = draft.output
        return next((o[len(so_far) :] for o in outputs if so_far and o[: len(so_far)] == so_far), ())[:8]

    steps = []
    for propose in (lambda _: (17, 19, 23), oracle):
        _draft(engine, monkeypatch, propose)
        before = engine.drawn_tokens, engine.steps
        said = [say(prompt)[0] for prompt in PROMPTS.values()]
        steps.append((engine.steps - before[1]) / (engine.drawn_tokens - before[0]))
        assert said == plain or not _is_exact(engine)
    assert steps[1] < 0.8 * steps[0]


@pytest.mark.parametrize("temperature", [0.7, 1.2])
def test_the_same_seed_gives_the_same_tokens_to_one_caller(engine: Engine, say: Say, temperature: float) -> None:
    """Sampled, with the pipeline on, cold and warm; kernels that round a row by its neighbours may differ."""
    fields: dict[str, Any] = {"temperature": temperature, "top_p": 0.95, "presence_penalty": 0.3, "seed": 11}
    for prompt in list(PROMPTS.values())[:3]:
        texts = {
            say(prompt, speculative=Speculative(enabled=enabled), scope="seeds", **fields)[0]
            for enabled in (False, True, True)
        }
        assert 1 == len(texts) or not _is_exact(engine)


def test_a_prediction_is_counted_and_changes_nothing(engine: Engine, plain: list[str]) -> None:
    """What the caller foresaw is accepted, what it did not is rejected, and both are told."""
    for prediction, right in ((plain[2], True), ("purple elephants dance slowly", False)):
        request = Generate(
            id=next(_numbers),
            text=PROMPTS["repetitive"],
            temperature=0,
            max_tokens=TOKENS,
            prediction=prediction,
            scope="p",
        )
        answers = run(engine, request)
        assert plain[2] == answers.text(request.id) or not _is_exact(engine)
        measured = answers.done[request.id, 0].measured
        if right:
            assert measured.accepted_prediction_tokens >= measured.rejected_prediction_tokens
        else:
            assert 0 == measured.accepted_prediction_tokens


def test_what_is_emitted_has_the_law_of_the_model(engine: Engine) -> None:
    """Real rows of a draft, 3,000 seeds: chi-square of the first token and of the one after an accepted draft.

    A true law fails once in 500,000 times.
    """
    kernels, prompt = engine._kernels, engine._intake._reader.read_text("My favourite colour is")
    drafted = kernels.tokenize(" blue and", add_special=False, parse_special=False)
    rows = [Row(0, token, at, at >= len(prompt) - 1) for at, token in enumerate((*prompt, *drafted))]
    kernels.decode(rows)
    logits = [kernels.logits(len(prompt) - 1 + j).copy() for j in range(len(drafted) + 1)]
    kernels.remove(0, 0)
    sampling = {"temperature": 1.3, "top_k": 6, "logit_bias": ((drafted[0], 4.0),)}
    firsts, seconds = Counter[int](), Counter[int]()
    for seed in range(3000):
        chooser = Chooser(Sampling(seed=seed, **sampling), choice=0, prompt=prompt)
        emitted = [drawn.token for drawn, _ in walk(chooser, logits.__getitem__, drafted)]
        firsts[emitted[0]] += 1
        if len(emitted) > 1:
            assert drafted[0] == emitted[0]
            seconds[emitted[1]] += 1
    for counts, row in ((firsts, logits[0]), (seconds, logits[1])):
        biased = row.astype(np.float64)
        biased[drafted[0]] += 4.0
        kept = np.argsort(-biased)[:6]
        weights = np.exp((biased[kept] - biased[kept[0]]) / 1.3)
        assert set(counts) <= set(kept.tolist())
        _assert_law(counts, dict(zip(kept.tolist(), weights / weights.sum(), strict=True)))


def _assert_law(counts: Counter[int], law: dict[int, float]) -> None:
    total = counts.total()
    assert total > 200
    statistic = sum((counts[token] - total * p) ** 2 / (total * p) for token, p in law.items())
    freedom = len(law) - 1
    # Wilson and Hilferty's approximation of the quantile that a true law passes once in a million times.
    limit = freedom * (1 - 2 / (9 * freedom) + 4.753 * math.sqrt(2 / (9 * freedom))) ** 3
    assert statistic < limit
