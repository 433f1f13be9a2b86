from collections.abc import Sequence

import numpy as np
import pytest

from embedded_engine.embedding import Embedder, PreparedEmbedding
from embedded_engine.errors import QueueFull
from embedded_engine.kernels.port import DecodeError
from embedded_engine.messages import Accepted, Embedded, Failed


class _States:
    """Says of each token (its number, its position), and 1."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []
        self.broken: set[int] = set()

    def hidden_states(self, tokens: Sequence[int], start: int) -> np.ndarray:
        self.calls.append((start, len(tokens)))
        if self.broken & set(tokens):
            raise DecodeError("told to")
        rows = [[token, start + at, 1] for at, token in enumerate(tokens)]
        return np.array(rows, np.float32) * (np.nan if 99 in tokens else 1)


def _embedder(queue_limit: int = 4) -> tuple[Embedder, _States]:
    states = _States()
    return Embedder(states, queue_limit=queue_limit), states  # type: ignore[arg-type] # only this verb is used


def _run(embedder: Embedder, most_tokens: int = 3) -> list[Embedded | Failed]:
    events = []
    while embedder.busy:
        events += embedder.step(most_tokens)
    return events


def _vector(event: Embedded | Failed) -> np.ndarray:
    assert isinstance(event, Embedded)
    return np.frombuffer(event.vector, "<f4")


@pytest.mark.parametrize("most_tokens", [1, 2, 3, 64])
def test_a_vector_is_the_mean_at_length_one_however_the_text_is_cut(most_tokens: int) -> None:
    """In order, one a text, in as many steps as their tokens need."""
    embedder, _ = _embedder()
    assert Accepted(id=7, prompt_tokens=6) == embedder.submit(PreparedEmbedding(id=7, texts=((5, 1, 3, 2, 9), (4,))))
    events = _run(embedder, most_tokens)
    assert [(7, 0), (7, 1)] == [(event.id, event.text) for event in events if isinstance(event, Embedded)]
    for event, mean in zip(events, ([4.0, 2.0, 1.0], [4.0, 0.0, 1.0]), strict=True):
        assert np.allclose(np.array(mean) / np.linalg.norm(mean), _vector(event), atol=1e-6)


def test_a_step_reads_as_much_as_it_may_and_no_more() -> None:
    """So many tokens, of one text or of several."""
    embedder, states = _embedder()
    embedder.submit(PreparedEmbedding(id=1, texts=((1,) * 7, (2,), (3,) * 4)))
    read = []
    while embedder.busy:
        states.calls.clear()
        embedder.step(3)
        read.append(list(states.calls))
    assert [[(0, 3)], [(3, 3)], [(6, 1), (0, 1), (0, 1)], [(1, 3)]] == read


def test_requests_take_turns_text_by_text() -> None:
    """A small one does not wait for the two thousand texts of another."""
    embedder, _ = _embedder()
    embedder.submit(PreparedEmbedding(id=1, texts=((1,),) * 5))
    embedder.submit(PreparedEmbedding(id=2, texts=((2,),)))
    assert [1, 2, 1, 1, 1, 1] == [event.id for event in _run(embedder)]


def test_a_failure_is_one_requests() -> None:
    """Kernels that fail and states that are no numbers; the next request is served."""
    embedder, states = _embedder()
    states.broken = {13}
    for number, token in ((1, 13), (2, 99), (3, 5)):
        embedder.submit(PreparedEmbedding(id=number, texts=((token, 1, 2, 3), (1,))))
    events = _run(embedder)
    assert {1: "decode_failed", 2: "numerics"} == {
        event.id: event.code for event in events if isinstance(event, Failed)
    }
    assert [(3, 0), (3, 1)] == [(event.id, event.text) for event in events if isinstance(event, Embedded)]


def test_a_cancelled_request_is_gone_in_the_middle_of_a_text() -> None:
    """The next one begins its own text anew."""
    embedder, states = _embedder()
    embedder.submit(PreparedEmbedding(id=1, texts=((1,) * 9,)))
    embedder.submit(PreparedEmbedding(id=2, texts=((2,),)))
    embedder.step(3)
    embedder.cancel(1)
    embedder.cancel(55)
    assert (2,) == embedder.requests
    assert [2] == [event.id for event in _run(embedder)]
    assert (0, 1) == states.calls[-1]
    assert [] == embedder.step(3)


def test_a_full_queue_says_so() -> None:
    """One is read, two wait."""
    embedder, _ = _embedder(queue_limit=2)
    for number in range(3):
        embedder.submit(PreparedEmbedding(id=number, texts=((1,),)))
    with pytest.raises(QueueFull):
        embedder.submit(PreparedEmbedding(id=9, texts=((1,),)))
