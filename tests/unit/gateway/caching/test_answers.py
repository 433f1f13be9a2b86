from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.caching.answers import Answers, KeptAnswer


def _answer(length_bytes: int) -> KeptAnswer:
    backend: Any = object()
    return KeptAnswer(
        body=b"x" * length_bytes,
        backend=backend,
        name="a",
        model="m",
        finish_reason="stop",
        saved_usd=None,
        kept_s=0.0,
    )


def test_the_one_that_was_not_used_for_longest_goes_first() -> None:
    """Asked for is used; room is made for what comes."""
    size_bytes = _answer(1000).size_bytes
    answers = Answers(2 * size_bytes)
    answers.put(b"a", _answer(1000))
    answers.put(b"b", _answer(1000))
    answers.get(b"a")
    answers.put(b"c", _answer(1000))
    assert [True, False, True] == [answers.get(key) is not None for key in (b"a", b"b", b"c")]
    assert 2 * size_bytes == answers.bytes


def test_what_would_not_fit_alone_is_not_kept_nor_what_was_before_it() -> None:
    """The older answer to the same is no longer the one that was given last."""
    answers = Answers(2000)
    answers.put(b"a", _answer(10))
    answers.put(b"a", _answer(2000))
    assert (None, 0, 0) == (answers.get(b"a"), answers.bytes, len(answers))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5000), st.booleans()), max_size=40))
def test_it_never_holds_more_than_it_may(steps: list[tuple[int, int, bool]]) -> None:
    """Whatever comes and goes, the count is the sum of what is there."""
    answers = Answers(8000)
    for name, length_bytes, forgets in steps:
        key = bytes([name])
        if forgets:
            answers.forget(key)
        else:
            answers.put(key, _answer(length_bytes))
        kept = [one for key in range(6) if (one := answers.get(bytes([key]))) is not None]
        assert answers.bytes == sum(one.size_bytes for one in kept) <= 8000
        assert len(kept) == len(answers)
