import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_engine.sampling.distribution import Distribution, likeliest

_ALMOST_ONE = math.nextafter(1, 0)


@pytest.mark.parametrize("size", [1, 255, 256, 257, 600, 1024])
def test_a_token_of_weight_zero_is_never_drawn(size: int) -> None:
    """Not at the very ends of [0, 1) either, whatever blocks they fall into."""
    for place in {0, size // 2, size - 1}:
        weights = np.zeros(size, np.float32)
        weights[place] = 0.3
        assert {place} == {Distribution(weights).token_at(u) for u in (0.0, 0.5, _ALMOST_ONE)}


@given(st.lists(st.integers(0, 3), min_size=1, max_size=900).filter(any), st.floats(0, 1, exclude_max=True))
def test_a_draw_inverts_the_cumulative_weights(weights: list[int], u: float) -> None:
    """The first token at which they exceed u; small whole numbers leave no room for rounding."""
    cumulative = np.cumsum(weights)
    expected = int(np.searchsorted(cumulative, math.floor(u * cumulative[-1]), side="right"))
    tokens = np.arange(len(weights)) * 7
    assert expected == Distribution(np.array(weights, np.float32)).token_at(u)
    assert 7 * expected == Distribution(np.array(weights, np.float32), tokens).token_at(u)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=200), st.integers(1, 220))
def test_the_likeliest_are_in_order_and_equal_ones_by_number(values: list[int], count: int) -> None:
    """As a sort of the whole row would have them."""
    expected = sorted(range(len(values)), key=lambda token: (-values[token], token))[:count]
    assert expected == likeliest(np.array(values, np.float32), count).tolist()


def test_the_likeliest_of_a_long_row() -> None:
    """By the bound of the groups for few, by a partition for many."""
    row = np.array([(token * 7919) % 5003 for token in range(5003)], np.float32)
    for count in (1, 20, 150, 157, 3000, 5003):
        assert [5002 - rank for rank in range(count)] == row[likeliest(row, count)].tolist()
