import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.price import Usage
from gateway.replay.prediction import Prediction, predictor
from gateway.replay.scene import Stage
from gateway.replay.trace import TraceOptions, TraceRequest, read_trace


@pytest.fixture
def rows(trace_file: Callable[..., Path]) -> list[TraceRequest]:
    """Prompts of 2,000 tokens, with answers from 1 to 400."""
    lines = [{"timestamp": n, "input_length": 2000, "output_length": n + 1} for n in range(400)]
    return list(read_trace(trace_file(lines), TraceOptions()))


def _p50s(stage: Stage, kind: Prediction, rows: list[TraceRequest], *, seed: int = 1) -> list[int]:
    forecaster, _ = predictor(kind, stage.build(), seed=seed)
    return [forecaster.forecast(row).output_tokens_p50 for row in rows]


def test_an_oracle_knows_and_nobody_else_does(stage: Callable[..., Stage], rows: list[TraceRequest]) -> None:
    """What a gateway could know does not depend on what comes."""
    assert [row.output_tokens for row in rows] == _p50s(stage(), "oracle", rows)
    for kind in ("policy", "median"):
        assert 1 == len(set(_p50s(stage(), kind, rows)))


def test_a_noisy_forecast_is_right_on_the_whole_and_wrong_in_each_case(
    stage: Callable[..., Stage], rows: list[TraceRequest]
) -> None:
    """Half of them within a factor of 1.7; the same noise for the same seed."""
    told = _p50s(stage(), "noisy", rows)
    ratios = [p50 / row.output_tokens for p50, row in zip(told, rows, strict=True) if row.output_tokens > 20]
    assert 0.9 < statistics.median(ratios) < 1.1
    assert 0.4 < sum(1 / 1.7 < ratio < 1.7 for ratio in ratios) / len(ratios) < 0.6
    assert told == _p50s(stage(), "noisy", rows) != _p50s(stage(), "noisy", rows, seed=2)


def test_the_running_median_learns_from_what_is_served(
    stage: Callable[..., Stage], rows: list[TraceRequest], make_entry: Any, make_attempt: Any
) -> None:
    """In the policy's classifier's stead: that one does not learn then."""
    scene = stage().build()
    forecaster, observers = predictor("median", scene, seed=1)
    assert all(observer is not scene.route.classifier for observer in observers)
    for tokens in range(100, 200):
        attempt = make_attempt(usage=Usage(prompt_tokens=10, output_tokens=tokens))
        for observer in observers:
            observer.observe(make_entry(request=rows[0].request, attempts=(attempt,)))
    assert 140 <= forecaster.forecast(rows[0]).output_tokens_p50 <= 160
    assert 2000 == forecaster.forecast(rows[0]).prompt_tokens
