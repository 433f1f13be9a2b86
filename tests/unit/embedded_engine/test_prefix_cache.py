"""What is remembered is never another sequence's, and never another scope's."""

import random
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from embedded_engine.engine import Engine
from embedded_engine.measured import Measured
from embedded_engine.messages import Generate
from tests.unit.embedded_engine.toy import Answers, ToyKernels

MakeEngine = Callable[..., Engine]
RunAll = Callable[..., Answers]

_SYSTEM = "You are a miller. " * 3


def _ask(number: int, text: str, **fields: Any) -> Generate:
    return Generate(**{"id": number, "text": text, "temperature": 0, "max_tokens": 8, **fields})


def _measured(answers: Answers, number: int = 1) -> Measured:
    return answers.done[number, 0].measured


def test_a_prompt_that_begins_like_an_earlier_one_is_not_read_again(make_engine: MakeEngine, run_all: RunAll) -> None:
    """All but what is new of it, down to the token; and at least its last token is computed."""
    engine = make_engine()
    assert 0 == _measured(run_all(engine, _ask(1, _SYSTEM + "Who?"))).cached_tokens
    read = engine.prefilled_tokens
    assert len(_SYSTEM) == _measured(run_all(engine, _ask(2, _SYSTEM + "Is it?")), 2).cached_tokens
    assert len("Is it?") == engine.prefilled_tokens - read
    again = run_all(engine, _ask(3, _SYSTEM + "Who?"))
    assert len(_SYSTEM + "Who?") - 1 == _measured(again, 3).cached_tokens


def test_a_conversation_goes_on_where_it_was(
    make_engine: MakeEngine, answering: Callable[..., ToyKernels], run_all: RunAll
) -> None:
    """The answer is remembered with the prompt, all but its last token."""
    engine = make_engine(answering(b"A wheel turns in the stream."))
    first = run_all(engine, _ask(1, "?", max_tokens=64)).text()
    cached = _measured(run_all(engine, _ask(2, "?" + first + " And then?")), 2).cached_tokens
    assert len("?" + first) - 1 == cached


def test_running_sequences_share_their_cells(make_engine: MakeEngine) -> None:
    """Who comes while another with the same beginning runs takes no cells for it."""
    engine = make_engine(lanes=1, slots=4)
    engine.submit(engine.prepare(_ask(1, _SYSTEM + "a", max_tokens=60)))
    while engine.prefilled_tokens <= len(_SYSTEM):
        engine.step()
    free = engine.free_kv_tokens
    engine.submit(engine.prepare(_ask(2, _SYSTEM + "b", max_tokens=60)))
    assert (2, free) == (engine.running, engine.free_kv_tokens)
    assert len(_SYSTEM) == engine._scheduler.placed[-1].computed


def test_scopes_share_nothing(make_engine: MakeEngine, run_all: RunAll) -> None:
    """Not even the knowledge that somebody asked: running or over."""
    engine = make_engine()
    engine.submit(engine.prepare(_ask(1, _SYSTEM, scope="a", max_tokens=40)))
    for _ in range(20):
        engine.step()
    answers = run_all(engine, _ask(2, _SYSTEM, scope="b"), _ask(3, _SYSTEM, scope="a"))
    assert (0, True) == (_measured(answers, 2).cached_tokens, _measured(answers, 3).cached_tokens > 0)
    assert 0 == _measured(run_all(engine, _ask(4, _SYSTEM, scope="c")), 4).cached_tokens


def test_no_cache_is_no_cache(make_engine: MakeEngine, run_all: RunAll) -> None:
    """Nothing is saved where there are no bytes for it."""
    engine = make_engine(prefix_cache_bytes=0)
    run_all(engine, _ask(1, _SYSTEM))
    assert 0 == _measured(run_all(engine, _ask(2, _SYSTEM)), 2).cached_tokens
    assert not engine.ready.keeps_prefixes


def test_what_failed_is_not_remembered(
    make_engine: MakeEngine, toy: Callable[..., ToyKernels], run_all: RunAll
) -> None:
    """What a sequence holds after a failed call is unknown."""
    kernels = toy()
    engine = make_engine(kernels)
    engine.submit(engine.prepare(_ask(1, _SYSTEM, max_tokens=40)))
    while engine.drawn_tokens < 5:
        engine.step()
    kernels.fails = lambda _: True
    engine.step()
    kernels.fails = lambda _: False
    assert 0 == _measured(run_all(engine, _ask(2, _SYSTEM)), 2).cached_tokens


def test_a_state_that_is_lost_is_read_again(make_engine: MakeEngine, run_all: RunAll) -> None:
    """As from a file that somebody cut."""
    engine = make_engine()
    expected = run_all(engine, _ask(1, _SYSTEM)).text()
    engine._cache._saved.get = lambda _key: None  # type: ignore[method-assign]
    again = run_all(engine, _ask(2, _SYSTEM))
    assert (expected, 0) == (again.text(2), _measured(again, 2).cached_tokens)


_TWINS = ("a miller went up to the pond by the old mill; ", "b miller went up to the pond by the new mill: ")
"""As long as one another, so that the cells of one fit wherever the other's do."""


@pytest.mark.parametrize(
    ("place", "fields"),
    [
        ("memory", {}),
        ("files", {"prefix_cache_bytes": 250, "prefix_spill_bytes": 4000}),
        ("the same lane", {"lanes": 1, "slots": 4}),
        ("another lane", {"lanes": 2, "slots": 4}),
    ],
)
@pytest.mark.parametrize("asked", range(2))
def test_of_two_that_are_alike_in_size_each_has_its_own_cells(
    make_engine: Callable[..., Any], run_all: RunAll, place: str, fields: dict[str, Any], asked: int
) -> None:
    """Wherever they are when somebody begins like one of them; the toy's answer tells whose tokens it was given."""
    engine, plain = make_engine(**fields), make_engine(prefix_cache_bytes=0)
    running = place.endswith("lane")
    twins = [_ask(number, text, max_tokens=90 if running else 4) for number, text in enumerate(_TWINS, 1)]
    for request in (*twins, _ask(4, "? " * 20, max_tokens=4)) if place == "files" else twins:
        engine.submit(engine.prepare(request))
    while engine.busy and not (running and engine.drawn_tokens >= 8):
        engine.step()
    again = [_ask(number, _TWINS[asked] + end) for number, end in ((5, "who?"), (6, "why?"))]
    expected = [run_all(plain, one).text(one.id) for one in again]
    with closing(engine):
        answers = run_all(engine, *again)
    assert expected == [answers.text(one.id) for one in again]
    assert all(_measured(answers, one.id).cached_tokens >= len(_TWINS[0]) - 16 for one in again)


@pytest.mark.parametrize("seed", range(4))
def test_no_interleaving_restores_the_wrong_cells(make_engine: MakeEngine, run_all: RunAll, seed: int) -> None:
    """Answers are those of an engine that remembers nothing, token for token.

    Few cells, little memory and some files, so that everything is shared, thrown out, saved, spilled, restored and
    forgotten; some requests are dropped in the middle. The toy's logits depend on every token that a sequence holds.
    """
    dice = random.Random(seed)  # noqa: S311 - requests, not secrets
    cells = {"slots": 4, "lanes": 2, "context_tokens": 96, "kv_tokens": 192}
    engine = make_engine(**cells, prefix_cache_bytes=1500, prefix_spill_bytes=2500, queue_limit=200)
    plain = make_engine(slots=2, context_tokens=96, prefix_cache_bytes=0, speculation=False)
    beginnings = ["".join(dice.choices("ab", k=dice.randint(20, 60))) for _ in range(4)]
    answers, requests, dropped = Answers(), [], set()
    for number in range(150):
        text = dice.choice(beginnings)[: dice.randint(10, 60)] + "".join(dice.choices("abc", k=dice.randint(1, 12)))
        fields = {"temperature": dice.choice([0.0, 1.0]), "n": dice.choice([1, 1, 2]), "scope": dice.choice("xy")}
        request = _ask(number, text, seed=number, max_tokens=dice.randint(1, 36), **fields)
        engine.submit(engine.prepare(request))
        requests.append(request)
        for _ in range(dice.randint(0, 5)):
            answers.take(engine.step())
            _holds_what_it_should(engine)
        if dice.random() < 0.2:
            engine.cancel(number)
            dropped.add(number)
    while engine.busy:
        answers.take(engine.step())
        _holds_what_it_should(engine)
    assert {} == answers.failed
    for request in requests:
        if request.id not in dropped:
            expected = run_all(plain, request)
            assert expected.texts.keys() == {key for key in answers.texts if key[0] == request.id}
            for choice in range(request.n):
                assert expected.text(request.id, choice) == answers.text(request.id, choice)
    assert engine._scheduler.preempted > 0
    assert engine._cache._saved.used_file_bytes > 0
    assert (0, 192) == (engine.running, engine.free_kv_tokens)
    engine.close()


def _holds_what_it_should(engine: Engine) -> None:
    for choice in engine._scheduler.placed:
        assert choice.slot is not None
        assert choice.tokens[: choice.computed] == list(engine._kernels.tokens(choice.slot))  # type: ignore[attr-defined]
    saved = engine._cache._saved._in_memory
    assert all(list(stored.tokens) == cells.view(np.int32).tolist() for stored, cells in saved.items())
