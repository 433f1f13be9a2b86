"""Weights of features: learned, bounded, and the same after a restart."""

import random
import statistics
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.classify import _feature_weights
from policies.classify._feature_weights import FeatureWeights, WeightsState
from policies.classify._packed import Packed

_ONES = array("f", [1.0] * 4096).tobytes()
features = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20, unique=True)


def _total(weights: FeatureWeights, numbers: list[int]) -> float:
    """Twice, and half of it: of a single feature there is no total."""
    return weights.total(Packed.of([*numbers, *numbers])) / 2


def _learn(weights: FeatureWeights, numbers: list[int], gradient: float, rate: float) -> None:
    weights.learn(Packed.of(numbers), gradient, rate)


def test_what_is_unknown_weighs_nothing_and_what_was_learned_weighs() -> None:
    """In the direction of the answer, shared by the features of the request."""
    weights = FeatureWeights()
    assert 0.0 == _total(weights, [1, 2, 3])
    _learn(weights, [1, 2], 1.0, 0.1)
    _learn(weights, [3], -1.0, 0.1)
    assert _total(weights, [1]) == _total(weights, [2]) > 0 > _total(weights, [3])
    assert _total(weights, [1, 2]) == pytest.approx(2 * _total(weights, [1]))


def test_a_feature_that_is_often_seen_moves_in_small_steps() -> None:
    """The hundredth answer moves it by less than a tenth of the first."""
    weights, steps = FeatureWeights(), []
    for _ in range(100):
        before = _total(weights, [7])
        _learn(weights, [7], 1.0, 0.1)
        steps.append(_total(weights, [7]) - before)
    assert 0 < steps[-1] < 0.15 * steps[0]


def test_learning_approaches_what_answers_say() -> None:
    """A word that makes answers longer by half, among others that mean nothing."""
    weights = FeatureWeights()
    for number in range(2000):
        present = [1, 1000 + number] if number % 2 else [1000 + number]
        residual = (0.4 if number % 2 else 0.0) - _total(weights, present)
        _learn(weights, present, max(-1.0, min(residual / 0.6, 1.0)), 0.1)
    assert _total(weights, [1]) == pytest.approx(0.4, abs=0.1)


def test_features_that_share_a_place_hardly_disturb_each_other() -> None:
    """A word that makes answers longer is known as such among 40,000 others in a table of 4,096 places and more."""
    weights, chance = FeatureWeights(), random.Random(5)  # noqa: S311  # a sample, not a secret
    for number in range(2000):
        present = [*([7] if number % 2 else []), *(chance.getrandbits(32) for _ in range(20))]
        residual = (0.4 if number % 2 else 0.0) - _total(weights, present)
        _learn(weights, present, max(-1.0, min(residual / 0.6, 1.0)), 0.1)
    strangers = [[chance.getrandbits(32) for _ in range(20)] for _ in range(200)]
    assert 0.25 < _total(weights, [7])
    assert statistics.fmean(abs(_total(weights, some)) for some in strangers) < 0.12


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table grows with the answers, to its limit; what was learned before stays."""
    monkeypatch.setattr(_feature_weights, "MOST_SLOTS", 1 << 15)
    weights = FeatureWeights()
    _learn(weights, [5, 6, (1 << 31) + 7], 1.0, 0.1)
    before, sizes = _total(weights, [5, 6, (1 << 31) + 7]), set()
    for _ in range(1000):
        _learn(weights, [1, 2], 0.5, 0.1)
        sizes.add(weights.slots)
    assert {1 << 12, 1 << 13, 1 << 14, 1 << 15} == sizes
    assert before == _total(weights, [5, 6, (1 << 31) + 7])


@given(seen=st.lists(features, max_size=30), asked=features)
def test_a_stored_state_says_the_same(seen: list[list[int]], asked: list[int]) -> None:
    """And goes on where it stood."""
    weights = FeatureWeights()
    for some in seen:
        _learn(weights, some, 0.7, 0.1)
    restored = FeatureWeights.from_state(weights.state())
    assert _total(weights, asked) == _total(restored, asked)
    for either in (weights, restored):
        _learn(either, asked, 0.3, 0.1)
    assert weights.state() == restored.state()


@pytest.mark.parametrize(
    "broken",
    [
        WeightsState(b"", b"", 0),
        WeightsState(b"\0" * 16384, b"\0" * 16380, 1),
        WeightsState(b"\0" * 4 * 5000, b"\0" * 4 * 5000, 1),
        WeightsState(b"\0" * 4 * (1 << 19), _ONES * 128, 1),
        WeightsState(b"\xff" * 16384, _ONES, 1),
        WeightsState(b"\x7f" * 16384, _ONES, 1),
        WeightsState(b"\0" * 16384, b"\xbf" * 16384, 1),
        WeightsState(b"\0" * 16384, b"\0" * 16384, 1),
        WeightsState(b"\0" * 16384, _ONES, -1),
    ],
    ids=[
        "empty",
        "uneven",
        "odd size",
        "too large",
        "not a number",
        "huge",
        "negative squares",
        "no squares",
        "negative lessons",
    ],
)
def test_a_state_that_is_none_is_refused(broken: WeightsState) -> None:
    """Sizes that there are not, and weights that no learning makes."""
    with pytest.raises(ValueError, match=r"a table of weights has a size of its own|a weight is out of bounds"):
        FeatureWeights.from_state(broken)
