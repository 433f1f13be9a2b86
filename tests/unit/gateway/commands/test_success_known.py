"""What ``headrace explain`` tells of success."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.commands.success_known import as_text

STEERS = "cost: [money, success], explore: {usd: 1}, canary: {to: new/small}"


@pytest.fixture
def steering_file(policy_file: Path) -> Path:
    """The policy file with a route that steers, and a canary."""
    text = policy_file.read_text().replace("cost: [money, decoding]", STEERS)
    policy_file.write_text(text.replace("routes:", "  new: {use: fake, models: [small]}\n    routes:"))
    return policy_file


def test_the_bill_has_the_chance_its_interval_and_the_tasks_behind_it(
    run: Any, steering_file: Path, tmp_path: Path
) -> None:
    """Before anything was learned: one half, and everything is possible."""
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"model": "small", "messages": [{"role": "user", "content": "hi"}]}))
    _, out, _ = run("explain", steering_file, request)
    lines = [line for line in out.splitlines() if line.startswith("   success ")]
    assert len(lines) >= 2
    assert all("(p 50.0%, " in line and "; 0.0 tasks, 1.0 requests each)" in line for line in lines)
    told = json.loads(run("explain", steering_file, request, "--json")[1])
    assert {0.5} == {one["success"]["p"] for one in told["candidates"]}


def test_what_was_learned_is_told_of_routes_that_steer(
    run: Any, steering_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing yet, in a state directory that is empty; the canary with its numbers."""
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path / "state"))
    code, out, _ = run("explain", steering_file, "--success")
    assert (0, "route      main") == (code, out.splitlines()[0])
    assert "no verdict yet" in out
    assert "canary     canary new/small of route main runs" in out
    told = json.loads(run("explain", steering_file, "--success", "--json")[1])
    assert "running" == told["main"]["canary"]["state"]


def test_a_policy_that_does_not_steer_says_so(run: Any, policy_file: Path) -> None:
    """And where to read of it."""
    code, out, _ = run("explain", policy_file, "--success")
    assert (0, "no route steers by success: see `headrace plugins success`\n") == (code, out)


def test_the_report_in_words() -> None:
    """Chances, what was left out, requests of a task, what exploring took."""
    chance = {
        "backend": "a",
        "model": "m",
        "kind": "short_in_short_out",
        "success": 0.9,
        "low": 0.85,
        "high": 0.94,
        "tasks": 40.0,
    }
    known = {
        "chances": [chance],
        "chances_left_out": 3,
        "requests_per_task": 2.5,
        "explored": {"requests": 7, "usd": 0.125},
    }
    text = "\n".join(as_text({"r": known, "s": {"chances": [], "chances_left_out": 0, "requests_per_task": None}}))
    assert "a/m" in text
    assert "90.0% (85.0% to 94.0%)" in text
    assert "and 3 more" in text
    assert "2.5 requests a task" in text
    assert "7 requests, $0.125000 dearer than seemed best" in text
    assert "no verdict yet" in text
