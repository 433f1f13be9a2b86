"""Speeds that are learned from what was seen."""

import random
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.speeds import DecodeSpeed, PrefillSpeed, Stretch


@pytest.mark.parametrize("tokens_per_s", [250.0, 4000.0, 50_000.0])
def test_the_reading_speed_moves_towards_the_truth(tokens_per_s: float) -> None:
    """A first guess that is wrong by fifty is forgotten after two hundred prompts."""
    speed = PrefillSpeed()
    distances = []
    for _ in range(200):
        speed.learn(3000, 0, 3000 * (1 + 1500 / 50_000) / tokens_per_s)
        distances.append(round(abs(log(speed.slowness_s * tokens_per_s)), 12))
    assert sorted(distances, reverse=True) == distances
    assert pytest.approx(1 / tokens_per_s, rel=0.05) == speed.slowness_s


def test_tokens_behind_a_long_context_take_longer_to_read() -> None:
    """Half as much again behind 25,000 that are warm, by the rule; and reading in two goes takes as long as in one."""
    speed = PrefillSpeed()
    assert pytest.approx(1.5 * speed.slowness_s, rel=0.01) == speed.seconds(1, 25_000)
    assert pytest.approx(speed.seconds(8000, 0)) == speed.seconds(3000, 0) + speed.seconds(5000, 3000)


def test_prompts_read_side_by_side_are_taken_for_neither_fast_nor_slow() -> None:
    """Four first tokens at once: the first prompt seems to have taken all the time, the others none."""
    speed = PrefillSpeed()
    for _ in range(200):
        speed.learn(1000, 0, 1.0)
        for _ in range(3):
            speed.learn(1000, 0, 0.0)
    assert pytest.approx(1 / 4000, rel=0.1) == speed.slowness_s


def test_a_stall_is_not_taken_for_slowness() -> None:
    """An hour for one prompt counts as eight times what was expected."""
    speed = PrefillSpeed()
    for _ in range(100):
        speed.learn(3000, 0, 0.3)
    before = speed.slowness_s
    speed.learn(3000, 0, 3600.0)
    assert before < speed.slowness_s < 1.2 * before


def test_steps_are_learned_as_a_line_over_the_load() -> None:
    """From answers written in company of 1 to 60, with noise: what a step costs alone, and with forty."""
    dice, speed = random.Random(1), DecodeSpeed()  # noqa: S311  # a repeatable shuffle, no secret
    for _ in range(500):
        sequences, kv_tokens = dice.uniform(1, 60), dice.uniform(0, 200_000)
        step_s = 0.018 + 0.0002 * (sequences + kv_tokens / 7000)
        speed.learn(sequences, kv_tokens, step_s * dice.uniform(0.8, 1.2))
    assert pytest.approx(0.018, rel=0.1) == speed.seconds_per_token(0, 0)
    assert pytest.approx(0.018 + 0.0002 * 60, rel=0.1) == speed.seconds_per_token(40, 140_000)


def test_more_company_is_never_faster_and_a_step_never_takes_no_time() -> None:
    """Even where the answers that were seen say so."""
    speed = DecodeSpeed()
    for _ in range(500):
        speed.learn(1, 0, 0.05)
        speed.learn(50, 0, 0.001)
    assert 0 < speed.seconds_per_token(1, 0) <= speed.seconds_per_token(50, 0)


@given(
    seen=st.lists(st.tuples(st.floats(1, 1000), st.floats(0, 1e7), st.floats(0, 100)), max_size=100),
    sequences=st.floats(0, 1e4),
    kv_tokens=st.floats(0, 1e8),
)
def test_a_step_is_positive_and_finite_whatever_was_seen(
    seen: list[tuple[float, float, float]], sequences: float, kv_tokens: float
) -> None:
    """It is divided by, and multiplied with money."""
    speed = DecodeSpeed()
    for one in seen:
        speed.learn(*one)
    assert 0 < speed.seconds_per_token(sequences, kv_tokens) < 1e12


@pytest.mark.parametrize("spread", [0.3, 0.8])
def test_quantiles_of_the_stretch_are_met(spread: float) -> None:
    """Half of what comes is below the median, nine of ten below the other."""
    dice, stretch = random.Random(2), Stretch()  # noqa: S311  # a repeatable shuffle, no secret
    ratios = [dice.lognormvariate(0.2, spread) for _ in range(4000)]
    for ratio in ratios:
        stretch.learn(2.0, 2.0 * ratio)
    late = ratios[2000:]
    assert pytest.approx(0.5, abs=0.07) == sum(ratio <= stretch.p50 for ratio in late) / len(late)
    assert pytest.approx(0.9, abs=0.05) == sum(ratio <= stretch.p90 for ratio in late) / len(late)


@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=50))
def test_the_stretch_stays_in_order_and_finite(pairs: list[tuple[float, float]]) -> None:
    """Nothing that was forecast or measured can spoil it."""
    stretch = Stretch()
    for forecast_s, actual_s in pairs:
        stretch.learn(forecast_s, actual_s)
        assert 0 < stretch.p50 <= stretch.p90 < 1e3
