"""Weights of features: learned, bounded, and kept when they come again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from policies.classify import _feature_weights
from policies.classify._feature_weights import FeatureWeights

features = st.lists(st.integers(0, 2**32 - 1), max_size=20, unique=True)


def test_what_is_unknown_weighs_nothing_and_what_was_learned_weighs() -> None:
    """In the direction of the answer, shared by the features of the request."""
    weights = FeatureWeights()
    assert 0.0 == weights.total([1, 2, 3])
    weights.learn([1, 2], 1.0, 0.1)
    weights.learn([3], -1.0, 0.1)
    assert weights.total([1]) == weights.total([2]) > 0 > weights.total([3])
    assert weights.total([1, 2]) == pytest.approx(2 * weights.total([1]))


def test_a_feature_that_is_often_seen_moves_in_small_steps() -> None:
    """The hundredth answer moves it by less than a tenth of the first."""
    weights, steps = FeatureWeights(), []
    for _ in range(100):
        before = weights.total([7])
        weights.learn([7], 1.0, 0.1)
        steps.append(weights.total([7]) - before)
    assert 0 < steps[-1] < 0.15 * steps[0]


def test_learning_approaches_what_answers_say() -> None:
    """A word that makes answers longer by half, among others that mean nothing."""
    weights = FeatureWeights()
    for number in range(2000):
        present = [1, 1000 + number] if number % 2 else [1000 + number]
        residual = (0.4 if number % 2 else 0.0) - weights.total(present)
        weights.learn(present, max(-1.0, min(residual / 0.6, 1.0)), 0.1)
    assert weights.total([1]) == pytest.approx(0.4, abs=0.1)


def test_memory_is_bounded_and_what_comes_again_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred thousand features the ones in use are kept; those seen once, long ago, are forgotten."""
    monkeypatch.setattr(_feature_weights, "MOST_SLOTS", 1 << 14)
    weights = FeatureWeights()
    weights.learn([5, 6], 1.0, 0.1)
    sizes = set()
    for number in range(5000):
        weights.learn([5, *range(10_000 + 20 * number, 10_020 + 20 * number)], 0.5, 0.1)
        sizes.add(weights.slots)
    assert 2 << 14 == max(sizes)
    assert weights.total([5]) > 0 == weights.total([6])


@given(seen=st.lists(features, max_size=30), asked=features)
def test_a_stored_state_says_the_same(seen: list[list[int]], asked: list[int]) -> None:
    """Both generations of it."""
    weights = FeatureWeights()
    for some in seen:
        weights.learn(some, 0.7, 0.1)
    restored = FeatureWeights.from_state(weights.state())
    assert weights.total(asked) == restored.total(asked)
    restored.learn([1, 2, 3], 1.0, 0.1)
    assert restored.slots >= weights.slots


@pytest.mark.parametrize(
    "broken",
    [
        (b"", b"", b""),
        (b"\0" * 16384, b"\0" * 16380, b"\0" * 16384),
        (b"\0" * 4 * 5000, b"\0" * 4 * 5000, b"\0" * 4 * 5000),
        (b"\0" * 16384, b"\xff" * 16384, b"\0" * 16384),
        (b"\0" * 16384, b"\x7f" * 16384, b"\0" * 16384),
        (b"\0" * 16384, b"\0" * 16384, b"\xbf" * 16384),
    ],
    ids=["empty", "uneven", "odd size", "not a number", "huge", "negative squares"],
)
def test_a_state_that_is_none_is_refused(broken: tuple[bytes, bytes, bytes]) -> None:
    """Sizes that there are not, and weights that no learning makes."""
    state = replace(FeatureWeights().state(), old=broken)
    with pytest.raises(ValueError, match=r"a generation of features has a size of its own|a weight is out of bounds"):
        FeatureWeights.from_state(state)
