import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.replay.sketch import RELATIVE_ERROR, Sketch

positive = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=200)


def _sketch(values: list[float]) -> Sketch:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    return sketch


@given(values=positive, share=st.floats(0, 1))
def test_a_quantile_is_off_by_half_a_percent_at_most(values: list[float], share: float) -> None:
    """Of the number that has its rank."""
    exact = sorted(values)[math.floor(share * (len(values) - 1))]
    assert exact == pytest.approx(_sketch(values).quantile(share), rel=RELATIVE_ERROR * 1.01)


@given(left=positive, right=positive)
def test_two_sketches_together_are_the_sketch_of_both(left: list[float], right: list[float]) -> None:
    """So that windows can be put together."""
    merged, whole = _sketch(left), _sketch(left + right)
    merged.merge(_sketch(right))
    assert (whole.bins, whole.count) == (merged.bins, merged.count)
    assert whole.mean() == pytest.approx(merged.mean())


def test_memory_does_not_grow_with_the_numbers() -> None:
    """A millisecond to an hour is some fifteen hundred bins, however many numbers there are."""
    assert len(_sketch([0.001 * 1.00015**n for n in range(100_000)]).bins) < 1600


def test_nothing_has_a_mean_and_quantiles_of_zero() -> None:
    """And zero itself is as small as can be."""
    assert (0.0, 0.0) == (Sketch().mean(), Sketch().quantile(0.5))
    assert _sketch([0.0]).quantile(0.5) < 2e-6
