"""How replays become tables and verdicts."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

KEYS = ("ttft_mean_s", "ttft_p95_s", "ttft_p99_s", "hit_ratio", "imbalance", "e2e_mean_s")


@pytest.fixture
def routing_report(benchmark_module: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module under test, which stands beside others that it uses."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    return benchmark_module("routing_report")


def _run(policy: str, ttft_mean_s: float, *, trace: str = "conversation", load: float = 1.0, gateways: int = 1) -> Any:
    return {"policy": policy, "trace": trace, "load": load, "gateways": gateways} | dict.fromkeys(KEYS, ttft_mean_s)


REPORT = {
    "traces": {"conversation": {"file": "c.jsonl", "requests": 1000}},
    "runs": [_run("default", 1.2), _run("round_robin", 7.0), _run("default", 1.3, gateways=4)],
    "cpu_us": {name: {"p50": 40.0} for name in ("decision_24_blocks", "decision_250_blocks", "hashing_48_kb")},
}


def test_a_goal_is_met_or_not_by_what_was_measured(routing_report: ModuleType) -> None:
    """Several gateways are held against one; what was not played has no verdict."""
    told = {one["goal"]: one for one in routing_report.verdicts(REPORT, whole=True)}
    assert told["conversation 1x ttft_mean_s"] == {
        "goal": "conversation 1x ttft_mean_s",
        "wanted": "<= 1.26",
        "measured": 1.2,
        "met": True,
    }
    together = told["conversation 1x ttft_mean_s, 4 gateways to 1"]
    assert (pytest.approx(1.3 / 1.2), True) == (together["measured"], together["met"])
    assert (False, True) == (told["decision_24_blocks p50 us"]["met"], told["decision_250_blocks p50 us"]["met"])
    assert not any("synthetic" in goal or "1.3x" in goal for goal in told)


def test_samples_are_held_to_no_goal_of_the_whole_traces(routing_report: ModuleType) -> None:
    """They are their beginnings, with cold caches."""
    told = routing_report.verdicts(REPORT, whole=False)
    assert 3 == len(told)
    assert all(" us" in one["goal"] for one in told)


def test_policies_are_listed_from_the_best_to_the_worst(routing_report: ModuleType) -> None:
    """A table for each load and number of gateways."""
    report = {**REPORT, "goals": routing_report.verdicts(REPORT, whole=True)}
    lines = [line for text in routing_report.tables(report) for line in text.splitlines()]
    firsts = [line.split("|")[1].strip() for line in lines if line.startswith("|") and "---" not in line]
    assert ["policy", "default", "round_robin", "policy", "default"] == firsts[:5]
    assert "conversation (1,000 requests) at 1x, 4 gateway(s)" in lines
