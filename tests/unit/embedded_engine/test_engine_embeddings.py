from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from embedded_engine.engine import Engine
from embedded_engine.errors import ContextLengthExceeded, InvalidRequest
from embedded_engine.messages import Embed, Embedded, Generate

MakeEngine = Callable[..., Engine]


def _run(engine: Engine) -> list[Any]:
    events: list[Any] = []
    while engine.busy:
        events += engine.step()
    return events


def test_texts_become_vectors(make_engine: MakeEngine) -> None:
    """One each, of length 1, and the same for a text and for its tokens."""
    engine = make_engine()
    accepted = engine.submit(engine.prepare_embedding(Embed(id=1, texts=("hello there", "x"))))
    engine.submit(engine.prepare_embedding(Embed(id=2, token_ids=(tuple(b"hello there"),))))
    assert (1, 12) == (accepted.id, accepted.prompt_tokens)
    assert (1, 2) == engine.requests
    vectors = {(event.id, event.text): event.vector for event in _run(engine) if isinstance(event, Embedded)}
    assert {(1, 0), (1, 1), (2, 0)} == set(vectors)
    assert vectors[1, 0] == vectors[2, 0]
    assert all(abs(np.linalg.norm(np.frombuffer(vector, "<f4")) - 1) < 1e-6 for vector in vectors.values())


def test_streams_go_on_while_texts_are_read(make_engine: MakeEngine) -> None:
    """Every step makes a token for the running choice, and reads a little of the text."""
    engine = make_engine(speculation=False)
    engine.submit(engine.prepare(Generate(id=1, text="?", max_tokens=40, ignore_eos=True)))
    engine.step()
    engine.submit(engine.prepare_embedding(Embed(id=2, texts=("x" * 100,))))
    drawn, events = engine.drawn_tokens, []
    for step in range(1, 13):
        events += engine.step()
        assert drawn + step == engine.drawn_tokens
    assert [] == [event for event in events if isinstance(event, Embedded)]
    events = engine.step()
    assert [2] == [event.id for event in events if isinstance(event, Embedded)]


def test_a_cancelled_request_leaves_nothing(make_engine: MakeEngine) -> None:
    """In the middle of a text."""
    engine = make_engine()
    engine.submit(engine.prepare_embedding(Embed(id=5, texts=("x" * 100,))))
    engine.step()
    engine.cancel(5)
    assert (False, ()) == (engine.busy, engine.requests)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Embed(id=1), "either"),
        (Embed(id=1, texts=("a",), token_ids=((1,),)), "either"),
        (Embed(id=1, texts=()), "1 to 2048"),
        (Embed(id=1, texts=("a",) * 2049), "1 to 2048"),
        (Embed(id=1, texts=("a", "")), "empty"),
        (Embed(id=1, token_ids=((1,), ())), "empty"),
        (Embed(id=1, token_ids=((261,),)), "0 to 260"),
        (Embed(id=1, texts=("\ud800",)), "Unicode"),
    ],
)
def test_what_cannot_be_embedded_is_refused_by_name(make_engine: MakeEngine, request_: Embed, reason: str) -> None:
    """Nothing at all, two kinds at once, too many, empty ones, unknown tokens, half characters."""
    with pytest.raises(InvalidRequest, match=reason):
        make_engine().prepare_embedding(request_)


def test_a_text_longer_than_the_context_is_refused_with_the_numbers(make_engine: MakeEngine) -> None:
    """The context's own length is the most."""
    engine = make_engine(context_tokens=64)
    engine.prepare_embedding(Embed(id=1, texts=("x" * 64,)))
    for length in (65, 9999):
        with pytest.raises(ContextLengthExceeded, match="64 tokens") as caught:
            engine.prepare_embedding(Embed(id=1, texts=("short", "x" * length)))
        assert "input" == caught.value.param
