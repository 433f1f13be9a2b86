from typing import Any

import pytest

from gateway.replay.tally import MOST_WINDOWS, Result, Tally


def _result(index: int, **fields: Any) -> Result:
    base = {
        "index": index,
        "engine": index % 2,
        "arrived_s": float(index),
        "ttft_s": 1.0 + index,
        "e2e_s": 2.0 + index,
        "tpot_s": 0.1,
        "prompt_tokens": 100,
        "cached_tokens": 40,
        "output_tokens": 10,
        "prefill_s": 0.5,
        "cost_usd": 0.01,
        "good": index % 3 == 0,
    }
    return Result(**{**base, **fields})


@pytest.mark.parametrize("count", [1, 7, 500, 5000])
def test_no_request_is_lost_however_many_there_are(count: int) -> None:
    """In at most as many windows as are allowed, and in whatever order they end."""
    tally = Tally(engines=2)
    for index in reversed(range(count)):
        tally.add(_result(index))
    windows = tally.windows
    assert len(windows) <= MOST_WINDOWS
    assert count == sum(window.ttft_s.count for window in windows)
    assert (100 * count, 40 * count) == (
        sum(window.prompt_tokens for window in windows),
        sum(window.cached_tokens for window in windows),
    )
    assert 0.5 * count == pytest.approx(sum(sum(window.prefill_s) for window in windows))
    assert 0.01 * count == pytest.approx(sum(window.cost_usd for window in windows))


def test_windows_are_stretches_of_the_trace() -> None:
    """One after the other, without overlap."""
    tally = Tally(engines=2)
    for index in range(1000):
        tally.add(_result(index))
    edges = [edge for window in tally.windows for edge in (window.first_s, window.last_s)]
    assert edges == sorted(edges)


def test_what_is_served_to_warm_up_is_not_counted() -> None:
    """The first requests, by arrival."""
    tally = Tally(engines=2, warm_up=10)
    for index in range(25):
        tally.add(_result(index))
    assert (15, 10.0) == (sum(window.ttft_s.count for window in tally.windows), tally.windows[0].first_s)


def test_an_answer_without_a_price_is_not_a_free_one() -> None:
    """It is counted as such, and an answer of one token has no time between tokens."""
    tally = Tally(engines=2)
    tally.add(_result(0, cost_usd=None, tpot_s=None))
    (window,) = tally.windows
    assert (1, 0.0, 0) == (window.unpriced, window.cost_usd, window.tpot_s.count)
