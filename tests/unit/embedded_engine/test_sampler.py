import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from embedded_engine.errors import BadNumerics
from embedded_engine.sampler import Sampling, draw, uniform

_EDGE = 1e-5
"""Closer than this to a threshold, 32-bit and 64-bit arithmetic may differ."""


def _sampling(**changes: float) -> Sampling:
    values: dict[str, float] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 7}
    return Sampling(**{**values, **changes})  # type: ignore[arg-type] # top_k and seed are whole numbers


def _reference(logits: list[float], sampling: Sampling) -> dict[int, float]:
    """The distribution after temperature, top-k, top-p and min-p, in that order, as plainly as it can be written."""
    weights = [math.exp((value - max(logits)) / sampling.temperature) for value in logits]
    ranked = sorted(range(len(logits)), key=lambda token: (-weights[token], token))
    if sampling.top_k:
        ranked = ranked[: sampling.top_k]
    total, kept, cumulative = sum(weights[token] for token in ranked), [], 0.0
    for token in ranked:
        assume(sampling.top_p == 1 or abs(cumulative / total - sampling.top_p) > _EDGE)
        if sampling.top_p == 1 or cumulative / total < sampling.top_p:
            kept.append(token)
        cumulative += weights[token]
    assume(all(abs(weights[token] - sampling.min_p) > _EDGE or sampling.min_p == 0 for token in kept[1:]))
    kept = [token for token in kept if weights[token] >= sampling.min_p or token == ranked[0]]
    total = sum(weights[token] for token in kept)
    return {token: weights[token] / total for token in kept}


@given(
    st.lists(st.integers(-20, 20), min_size=1, max_size=40),
    st.sampled_from([0.3, 0.7, 1.0, 1.7]),
    st.integers(0, 45),
    st.sampled_from([0.05, 0.35, 0.8, 0.95, 1.0]),
    st.sampled_from([0.0, 0.02, 0.3]),
    st.integers(0, 1000),
)
def test_a_draw_inverts_the_reference_distribution(
    quarters: list[int], temperature: float, top_k: int, top_p: float, min_p: float, position: int
) -> None:
    """Only tokens of the reference are drawn, and each where its share of [0, 1) lies."""
    logits = [value / 4 for value in quarters]
    sampling = _sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    reference = _reference(logits, sampling)
    u = uniform(sampling.seed, 0, position)
    order = sorted(reference) if not top_k and top_p == 1 else list(reference)
    cumulative = np.cumsum([reference[token] for token in order])
    assume(np.min(np.abs(cumulative[:-1] - u), initial=1) > _EDGE)
    expected = order[min(int(np.searchsorted(cumulative, u, side="right")), len(order) - 1)]
    assert expected == draw(np.array(logits, np.float32), sampling, choice=0, position=position)


def test_top_p_over_a_large_vocabulary_looks_as_far_as_it_must() -> None:
    """A flat distribution needs far more tokens than the first look takes in."""
    logits = np.zeros(50_000, np.float32)
    drawn = {draw(logits, _sampling(top_p=0.9), choice=0, position=position) for position in range(200)}
    assert max(drawn) > 40_000
    assert max(drawn) < 45_000


def test_draws_follow_the_distribution() -> None:
    """Chi-square over 20,000 draws with a fixed seed; a sound sampler would fail with probability 1e-4."""
    logits = np.log(np.array([0.4, 0.2, 0.1, 0.1, 0.08, 0.06, 0.04, 0.02], np.float32))
    draws = 20_000
    counts = Counter(draw(logits, _sampling(seed=11), choice=0, position=position) for position in range(draws))
    expected = draws * np.exp(logits)
    statistic = sum((counts[token] - expected[token]) ** 2 / expected[token] for token in range(len(logits)))
    critical_7_degrees = 29.88
    assert statistic < critical_7_degrees


def test_a_draw_depends_on_seed_choice_and_position_alone() -> None:
    """Each of the three moves the generator; the same three give the same number."""
    numbers = [uniform(*key) for key in [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1)]]
    assert 4 == len(set(numbers))
    assert numbers[0] == uniform(1, 0, 0)


def test_negative_seeds_are_seeds() -> None:
    """JSON knows no unsigned numbers."""
    assert 0 <= uniform(-5, 0, 0) < 1


def test_temperature_zero_takes_the_likeliest_and_the_first_of_equals() -> None:
    """Greedy needs no generator."""
    assert 1 == draw(np.array([0, 5, 5, 1], np.float32), _sampling(temperature=0), choice=0, position=0)


def test_a_tiny_temperature_is_greedy_and_raises_no_warning() -> None:
    """A quotient of 32-bit numbers would overflow."""
    assert 1 == draw(np.array([0, 5, -np.inf], np.float32), _sampling(temperature=1e-45), choice=0, position=0)
    assert 1 == draw(np.array([0, 5, -np.inf], np.float32), _sampling(temperature=2e-6), choice=0, position=0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_numbers_are_refused(bad: float, temperature: float) -> None:
    """They fail the request, not the engine."""
    with pytest.raises(BadNumerics):
        draw(np.array([1, bad, 3], np.float32), _sampling(temperature=temperature), choice=0, position=0)


def test_a_ruled_out_vocabulary_is_refused() -> None:
    """There is nothing to draw."""
    with pytest.raises(BadNumerics):
        draw(np.full(4, -np.inf, np.float32), _sampling(), choice=0, position=0)
