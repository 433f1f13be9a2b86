"""How measurements become figures and figures a table."""

from collections.abc import Callable
from types import ModuleType

import pytest


@pytest.fixture
def figures(benchmark_module: Callable[[str], ModuleType]) -> ModuleType:
    """The module under test."""
    return benchmark_module("figures")


def test_a_figure_is_the_median_with_its_spread(figures: ModuleType) -> None:
    """One wild round moves the spread and not the figure."""
    assert figures.Figure(median=3, low=1, high=900, rounds=5) == figures.figure([3, 900, 1, 2, 4])


def test_ratios_are_taken_round_by_round(figures: ModuleType) -> None:
    """A slow minute of the machine slows both sides of a pair, so that the ratio stays."""
    difference, ratio = figures.paired([10, 100, 10], [5, 50, 5])
    assert (5, 5, 50) == (difference.median, difference.low, difference.high)
    assert (2, 2, 2) == (ratio.median, ratio.low, ratio.high)


def test_a_reference_too_small_to_be_measured_gives_no_ratio(figures: ModuleType) -> None:
    """CPU time comes in ticks, and a fast peer may have used none."""
    difference, ratio = figures.paired([10], [0])
    assert 10 == difference.median
    assert ratio is None


@pytest.mark.parametrize(
    ("number", "text"),
    [(1234.5, "1,234"), (99.94, "99.9"), (5.678, "5.68"), (0.0123, "0.012"), (-26.08, "-26.1"), (0, "0.000")],
)
def test_three_figures_count(figures: ModuleType, number: float, text: str) -> None:
    """More digits would claim what was not measured."""
    assert text == figures.short(number)


def test_a_table_is_markdown(figures: ModuleType) -> None:
    """It can be pasted into the documentation as it is."""
    expected = "| what | us |\n| --- | ---: |\n| a | 1 |\n| b | 2 |"
    assert expected == figures.table(["what", "us"], [["a", "1"], ["b", "2"]])
