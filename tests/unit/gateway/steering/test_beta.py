"""The beta distribution, against what is known of it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.steering.beta import below, interval, mean

counts = st.floats(0.05, 2000)


@pytest.mark.parametrize(
    ("share", "successes", "failures", "expected"),
    [
        (0.3, 1, 1, 0.3),  # the uniform distribution
        (0.3, 2, 1, 0.09),  # x^2
        (0.25, 1, 3, 1 - 0.75**3),
        (0.5, 7.5, 7.5, 0.5),  # symmetric
        (0.6, 3, 4, 0.8208),  # of 6 draws with a chance of .6, at least 3 hit
    ],
)
def test_the_chance_to_be_below_a_share(share: float, successes: float, failures: float, expected: float) -> None:
    """Where the distribution has a formula that one can work out."""
    assert expected == pytest.approx(below(share, successes, failures), abs=1e-9)


def test_it_is_the_sum_of_the_binomial_distribution() -> None:
    """For whole counts: so many hits or more in ``successes + failures - 1`` draws."""
    draws = 30 + 12 - 1
    hits = sum(math.comb(draws, k) * 0.7**k * 0.3 ** (draws - k) for k in range(30, draws + 1))
    assert hits == pytest.approx(below(0.7, 30, 12), rel=1e-9)


@given(successes=counts, failures=counts, confidence=st.floats(0.5, 0.999))
def test_an_interval_leaves_out_what_it_says(successes: float, failures: float, confidence: float) -> None:
    """As much below as above, whatever the counts: to a millionth of a share, and six digits of the counts."""
    low, high = interval(successes, failures, confidence)
    assert 0 <= low <= high <= 1
    for bound, chance in ((low, 1 - confidence), (high, confidence)):
        least, most = below(bound - 1e-6, successes, failures), below(bound + 1e-6, successes, failures)
        assert least - 1e-3 <= chance <= most + 1e-3


def test_more_tasks_make_it_narrower() -> None:
    """About as the root of their number."""
    few, many = interval(9, 1, 0.95), interval(900, 100, 0.95)
    assert few[1] - few[0] > 7 * (many[1] - many[0])
    assert many[0] < mean(900, 100) < many[1]


def test_the_ends_are_certain() -> None:
    """No share is below 0, every one is below 1."""
    assert (0.0, 1.0) == (below(0, 3, 2), below(1, 3, 2))
