"""The sources that follow a text: repetition, the caller's prediction, past outputs."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_engine.speculation.drafter import MOST_TOKENS, Drafter
from embedded_engine.speculation.past_outputs import PastOutputs, Recall
from embedded_engine.speculation.prediction import Prediction
from embedded_engine.speculation.repetition import Repetition


def _next(drafter: Drafter, count: int = 1) -> list[int]:
    proposal = drafter.propose()
    return list(proposal.tokens[:count]) if proposal else []


def _follow(drafter: Drafter, output: Sequence[int]) -> int:
    """How many of the tokens were the next one proposed."""
    hits = 0
    for token in output:
        hits += _next(drafter) == [token]
        drafter.take(token)
    return hits


def _repetition(text: list[int]) -> Repetition:
    drafter = Repetition(text[:-1])
    drafter.take(text[-1])
    return drafter


def test_repetition_goes_on_as_it_did_the_last_time() -> None:
    """The place that is most like the end of the text, and of several the latest."""
    assert [4, 5, 6] == _next(_repetition([1, 2, 3, 9, 2, 3, 4, 5, 6, 2, 3]), 3)


def test_repetition_goes_round_in_circles_where_the_text_does() -> None:
    """The end of what is known is not the end of the draft."""
    proposal = _repetition([1, 2, 3, 1, 2, 3]).propose()
    assert proposal is not None
    assert [1, 2, 3, 1, 2, 3, 1] == list(proposal.tokens[:7])
    assert MOST_TOKENS == len(proposal.tokens) == len(proposal.shares)


def test_repetition_knows_nothing_of_new_tokens() -> None:
    """Nor of an empty prompt."""
    assert [] == _next(_repetition([1, 2, 3]))
    assert [] == _next(Repetition([]))


def test_repetition_forgets_the_older_half_and_lives_on() -> None:
    """Its memory is bounded; what is recent is still found."""
    drafter = Repetition([], most_indexed=64)
    for token in range(1000):
        drafter.take(token)
        assert len(drafter._index.tokens) <= 64
        assert not drafter._waiting
    drafter.take(990)
    assert [991, 992] == _next(drafter, 2)


def test_a_long_prompt_is_indexed_over_several_steps() -> None:
    """It is silent until it has read all of it, and then knows all of it."""
    drafter = Repetition(list(range(2500)))
    drafter.take(100)
    assert [] == _next(drafter)
    drafter.take(101)
    drafter.take(102)
    assert [103, 104] == _next(drafter, 2)


def test_a_prediction_that_comes_true_is_proposed_to_its_end() -> None:
    """Every token of it, the first included; after its end there is nothing."""
    predicted = list(range(100, 140))
    drafter = Prediction(predicted)
    assert 40 == _follow(drafter, predicted)
    assert [] == _next(drafter)


@pytest.mark.parametrize(
    ("output", "misses"),
    [
        ([*range(100, 110), 7, *range(111, 140)], 1),
        ([*range(100, 110), 7, 8, 9, *range(110, 140)], 5),
        ([*range(100, 110), *range(115, 140)], 2),
        ([7, 8, *range(100, 140)], 4),
    ],
    ids=["exchanged", "put in", "left out", "before the beginning"],
)
def test_a_prediction_finds_the_place_again_after_an_edit(output: list[int], misses: int) -> None:
    """One token exchanged costs one miss; for the rest two equal tokens in a row must come first."""
    assert len(output) - misses == _follow(Prediction(range(100, 140)), output)


def test_a_prediction_that_is_all_wrong_falls_silent() -> None:
    """It costs nothing more."""
    drafter = Prediction(range(100, 140))
    _follow(drafter, [1, 2, 3, 4])
    assert [] == _next(drafter)


def test_of_two_places_the_nearest_ahead_is_taken() -> None:
    """A text with a refrain is not set back to the first one."""
    predicted = [1, 2, 3, 1, 2, 4, 1, 2, 5]
    drafter = Prediction(predicted)
    _follow(drafter, [1, 2, 3, 9, 9, 1, 2])
    assert [4] == _next(drafter)


@given(st.lists(st.integers(0, 3), max_size=30), st.lists(st.integers(0, 3), max_size=30))
def test_no_prediction_upsets_it(predicted: list[int], output: list[int]) -> None:
    """Empty, repetitive, shorter or longer than what comes."""
    drafter = Prediction(predicted)
    for token in output:
        proposal = drafter.propose()
        assert proposal is None or 1 <= len(proposal.tokens) <= len(predicted)
        drafter.take(token)


def test_past_outputs_are_recalled_in_their_scope() -> None:
    """Three equal tokens recall an answer."""
    store = PastOutputs()
    store.store("a", [1, 2, 3, 4, 5, 6])
    drafter = Recall(store, "a", [9, 1, 2, 3])
    drafter.take(1)
    assert [] == _next(drafter)
    _follow(drafter, [2, 3])
    assert [4, 5, 6] == _next(drafter, 3)
    assert 3 == _follow(drafter, [4, 5, 6])


def test_past_outputs_never_cross_scopes() -> None:
    """What one tenant was told is nothing that another's drafts can be fast with."""
    store = PastOutputs()
    store.store("a", [1, 2, 3, 4, 5, 6])
    drafter = Recall(store, "b", [])
    assert 0 == _follow(drafter, [1, 2, 3, 4, 5, 6])


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.lists(st.integers(0, 3), max_size=12)), max_size=30),
    st.integers(4, 40),
)
def test_past_outputs_are_bounded_and_leave_nothing_behind(
    outputs: list[tuple[str, list[int]]], most_tokens: int
) -> None:
    """However many are stored; what the index points to is there, and of that scope."""
    store = PastOutputs(most_tokens=most_tokens)
    for scope, output in outputs:
        store.store(scope, output)
        assert store.tokens == sum(len(tokens) for _, tokens in store._outputs.values()) <= most_tokens
        for owner, places in store._places.items():
            for key, (number, end) in places.items():
                assert owner == store._outputs[number][0]
                assert key == store.output(number)[end - len(key) : end]


def test_what_is_used_stays() -> None:
    """The output that was least recently of use is forgotten first."""
    store = PastOutputs(most_tokens=12)
    for first in (10, 20, 30):
        store.store("a", [first, first + 1, first + 2, first + 3])
    assert store.find("a", (10, 11, 12)) is not None
    store.store("a", [40, 41, 42, 43])
    assert store.find("a", (10, 11, 12)) is not None
    assert store.find("a", (20, 21, 22)) is None


def test_a_recalled_output_that_is_forgotten_meanwhile_is_no_trouble() -> None:
    """The drafter falls silent."""
    store = PastOutputs(most_tokens=6)
    store.store("a", [1, 2, 3, 4, 5, 6])
    drafter = Recall(store, "a", [])
    _follow(drafter, [1, 2, 3])
    store.store("b", [7, 7, 7, 7, 7, 7])
    assert [] == _next(drafter)
    drafter.take(4)
    assert [] == _next(drafter)
