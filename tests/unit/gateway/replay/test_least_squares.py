import pytest

from gateway.replay.least_squares import not_negative


def test_exact_sums_give_exact_coefficients() -> None:
    """Whatever their sizes: a nanosecond a token beside milliseconds a step."""
    rows = [(1.0, n % 7, n * n * 1e6) for n in range(1, 30)]
    values = [0.5 * a + 0.25 * b + 3e-9 * c for a, b, c in rows]
    assert [0.5, 0.25, 3e-9] == pytest.approx(not_negative(rows, values))


def test_what_would_be_negative_is_zero_and_the_others_make_up_for_it() -> None:
    """The line 10 - x through x = 1, 2, 3 becomes its mean: a slope below zero is not allowed."""
    assert [8.0, 0.0] == pytest.approx(not_negative([(1, 1), (1, 2), (1, 3)], [9, 8, 7]))


def test_unknowns_that_cannot_be_told_apart_are_not_told_apart() -> None:
    """Two equal columns: one of them explains everything."""
    found = not_negative([(1, 1), (2, 2)], [3, 6])
    assert 3.0 == pytest.approx(sum(found))
