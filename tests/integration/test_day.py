"""A short scripted day on a whole gateway: what the report says is true, and what is learned steers."""

import sys
from collections.abc import Iterator
from decimal import Decimal
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
OURS = ("day", "day_script", "day_provider")


@pytest.fixture
def day(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The benchmark, which is a script and no package."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import day  # type: ignore[import-not-found]  # found beside the benchmarks

    yield day
    for name in OURS:
        sys.modules.pop(name, None)


async def test_a_short_day(day: Any) -> None:
    """300 tasks with failures, cut answers, hedges, hang-ups, and late, repeated and revised verdicts.

    The ledger is what the providers charged, to the last digit. What is reported is off the truth by no more than the
    interval's half and its whole width, and what is learned by no more than four standard errors of as many tasks and
    what two tasks more would change: chance does that once in thousands of days.
    """
    figures = await day.run(300)
    assert 300 == figures["tasks"]
    assert Decimal(0) == Decimal(figures["off_usd"])
    assert Decimal(figures["charged_usd"]) > 0
    ends = {end for of in figures["ends"].values() for end in of}
    assert {"whole", "left"} <= ends
    assert {"cut", "failed"} & ends
    for figure in (figures["success"], figures["usd_per_success"]):
        assert figure["happened"] == pytest.approx(figure["told"])
        assert _is_near(figure["truth"], *figure["interval"])
    known = [chance for chance in figures["chances"] if chance["tasks"] >= 5]
    assert [] == [chance for chance in known if not _is_learned(**chance)]
    assert figures["of_oracle"]["0-1000"] > 0.75
    assert 0 < figures["explored"]["usd"] <= 2
    assert figures["canary"]["rolled_back_after_tasks"] is not None
    assert "rolled back" in figures["canary"]["why"]


def _is_near(truth: float, low: float, high: float) -> bool:
    width = high - low
    return low - width <= truth <= high + width


def _is_learned(truth: float, told: float, tasks: float, **_: Any) -> bool:
    return abs(told - truth) <= 4 * sqrt(truth * (1 - truth) / tasks) + 2 / (tasks + 2)
