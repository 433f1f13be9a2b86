"""The benchmark of admission in short: what is promised for twice the capacity, on five minutes of it."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest

LASTS_S = 300.0


@pytest.fixture(scope="module")
def bench(benchmark_module: Callable[[str], ModuleType]) -> Iterator[ModuleType]:
    """The benchmark, which stands beside others that it uses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
        yield benchmark_module("admission")


@pytest.fixture(scope="module")
def found(bench: ModuleType) -> Mapping[str, Mapping[str, float]]:
    """The figures of two ways to admit, and of ours when there is little to do."""
    lengths = bench.made_up_lengths()
    per_s = bench.capacity(lengths)
    figures = {}
    for name, admitter, load in (
        ("none", bench.RIVALS["no control"], 2.0),
        ("fifo", bench.RIVALS["FIFO, expiry"], 2.0),
        ("ours", lambda: None, 2.0),
        ("none, calm", bench.RIVALS["no control"], 0.8),
        ("ours, calm", lambda: None, 0.8),
    ):
        work = bench.jobs(lengths, [(LASTS_S, load * per_s)])
        house = bench.play(work, admitter())
        figures[name] = bench.figures(work, LASTS_S) | bench.refusals(house, work)
        assert 0 == house.admitter.waiting == sum(house.fleet.in_flight.values())
        assert all((job.done_s is None) != (job.refused_s is None) for job in work)
    return figures


def test_the_model_is_the_one_that_figures_are_told_of(bench: ModuleType) -> None:
    """One engine that does four requests a second."""
    assert 3.8 <= bench.capacity(bench.made_up_lengths()) <= 4.2


def test_most_is_answered_as_wanted_at_twice_the_capacity(found: Mapping[str, Mapping[str, float]]) -> None:
    """Above what first come, first served brings, and little work is for nothing."""
    ours = found["ours"]
    assert 4.3 <= ours["goodput_per_s"]
    assert 1.2 * found["fifo"]["goodput_per_s"] < ours["goodput_per_s"]
    assert 0.7 <= ours["interactive"]
    assert ours["wasted"] <= 0.1 < found["none"]["wasted"]


def test_small_tenants_are_served_beside_one_that_floods(found: Mapping[str, Mapping[str, float]]) -> None:
    """Better, the less they ask for."""
    ours = found["ours"]
    assert ours["flood"] < 0.65 < ours["small-a"] < ours["small-b"]
    assert 0.8 <= ours["small-b"]


def test_below_the_capacity_it_costs_nothing(found: Mapping[str, Mapping[str, float]]) -> None:
    """Within a hundredth of no control."""
    assert pytest.approx(found["none, calm"]["goodput_per_s"], rel=0.01) == found["ours, calm"]["goodput_per_s"]


def test_the_time_to_come_back_is_about_right(found: Mapping[str, Mapping[str, float]]) -> None:
    """For half of those who are refused within a third, by how many have left the queue then."""
    assert 30 <= found["ours"]["refusals"]
    assert found["ours"]["retry_after_error_p50"] <= 0.33
