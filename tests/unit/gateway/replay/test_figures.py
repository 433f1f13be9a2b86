import random
from typing import Any

import pytest

from gateway.replay.figures import FIGURES, Sample, differences, figures
from gateway.replay.tally import Result, Tally


def _tally(count: int = 2000, *, slower: float = 0.0, seed: int = 4, **fields: Any) -> Tally:
    rng = random.Random(seed)  # noqa: S311  # the same every time
    tally = Tally(engines=2)
    for index in range(count):
        ttft_s = rng.expovariate(1.0) + slower
        result = {
            "index": index,
            "engine": 0 if index % 4 else 1,
            "arrived_s": index * 0.5,
            "ttft_s": ttft_s,
            "e2e_s": ttft_s + 1.0,
            "tpot_s": 0.1,
            "prompt_tokens": 100,
            "cached_tokens": 25,
            "output_tokens": 10,
            "prefill_s": 0.5,
            "cost_usd": 0.01,
            "good": ttft_s <= 2.0,
        }
        tally.add(Result(**{**result, **fields}))
    return tally


def _sample(tally: Tally, **options: Any) -> Sample:
    return Sample(tally.windows, **options)


def test_figures_are_those_of_the_requests() -> None:
    """Means and ratios exactly, quantiles within the sketch's half percent."""
    rng = random.Random(4)  # noqa: S311  # as above
    ttfts_s = sorted(rng.expovariate(1.0) for _ in range(2000))
    found = {name: figure.value for name, figure in figures(_sample(_tally()), seed=1).items()}
    assert set(FIGURES) == set(found)
    good = sum(ttft_s <= 2.0 for ttft_s in ttfts_s)
    assert found["ttft_mean_s"] == pytest.approx(sum(ttfts_s) / 2000)
    assert found["ttft_p95_s"] == pytest.approx(ttfts_s[int(0.95 * 1999)], rel=0.006)
    assert (0.25, 1.5) == (found["hit_ratio"], pytest.approx(found["imbalance"]))
    assert found["good_ratio"] == pytest.approx(good / 2000)
    assert found["goodput_per_s"] == pytest.approx(good / (1999 * 0.5))
    assert (found["cost_usd"], found["cost_per_success_usd"]) == (pytest.approx(20.0), pytest.approx(20.0 / good))


def test_intervals_hold_the_value_and_narrow_with_the_trace() -> None:
    """A trace four times as long says twice as much."""
    short, long = (figures(_sample(_tally(count)), seed=1)["ttft_mean_s"] for count in (1000, 16_000))
    for figure in (short, long):
        assert figure.low < figure.value < figure.high  # type: ignore[operator]  # it has an interval
    assert 2.5 < (short.high - short.low) / (long.high - long.low) < 6.5  # type: ignore[operator]  # likewise


def test_a_difference_is_taken_on_the_same_draws() -> None:
    """Where every request is slower by 50 ms, that is the difference, although the mean itself is uncertain by more."""
    found = differences(_sample(_tally(slower=0.05)), _sample(_tally()), seed=1)["ttft_mean_s"]
    alone = figures(_sample(_tally()), seed=1)["ttft_mean_s"]
    assert (0.05, 0.05, 0.05) == tuple(pytest.approx(edge) for edge in (found.low, found.value, found.high))
    assert alone.high - alone.low > 0.05  # type: ignore[operator]  # it has an interval


def test_other_traces_cannot_be_compared() -> None:
    """They have other windows."""
    with pytest.raises(ValueError, match="cannot be compared"):
        differences(_sample(_tally(10)), _sample(_tally(2000)), seed=1)


def test_an_unknown_price_makes_the_cost_unknown_unless_engines_are_paid_by_the_hour() -> None:
    """A sum of what happens to be known would look cheap."""
    unpriced = _tally(100, cost_usd=None)
    found = figures(_sample(unpriced), seed=1)
    assert (None, None) == (found["cost_usd"].value, found["cost_per_success_usd"].value)
    hourly = figures(_sample(unpriced, usd_per_s=0.1), seed=1)["cost_usd"]
    assert hourly.value == pytest.approx(99 * 0.5 * 0.1)


def test_the_same_seed_gives_the_same_intervals() -> None:
    """And another one nearly so."""
    again = [figures(_sample(_tally()), seed=seed)["ttft_mean_s"] for seed in (1, 1, 2)]
    assert again[0] == again[1] != again[2]
