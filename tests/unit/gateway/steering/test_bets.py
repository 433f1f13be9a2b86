"""The test that may be looked at after every task."""

import math
from random import Random

import pytest

from gateway.steering.bets import STAKES, bet, log_wealth


def _wealths(seed: int, *, share: float, canary_fails: float, incumbent_fails: float, tasks: int) -> list[float]:
    """The wealth after each task of one trial, with a guess made of the tasks before."""
    rng = Random(seed)  # noqa: S311  # a test's dice
    logs = [0.0] * len(STAKES)
    seen = failed = 0
    wealths = []
    for _ in range(tasks):
        canary = rng.random() < share
        y = float(rng.random() < (canary_fails if canary else incumbent_fails))
        guess = (failed + 1) / (seen + 2)
        won = bet(y, guess=guess, lowest=0.0, highest=1.0, share=share, canary=canary)
        logs = [a + b for a, b in zip(logs, won, strict=True)]
        if not canary:
            seen, failed = seen + 1, failed + int(y)
        wealths.append(math.exp(log_wealth(logs)))
    return wealths


def test_without_a_difference_it_raises_a_false_alarm_no_more_often_than_it_says() -> None:
    """Looked at after each of 500 tasks: the chance is at most 1 in 20.

    Of 200 trials 10 would be the most on average; 22 or more come up once in two thousand times at the very bound.
    """
    alarms = sum(
        max(_wealths(seed, share=0.1, canary_fails=0.1, incumbent_fails=0.1, tasks=500)) >= 20 for seed in range(200)
    )
    assert alarms < 22


def test_a_better_canary_is_not_accused() -> None:
    """The bet is on worse, and on nothing else."""
    for seed in range(50):
        assert max(_wealths(seed, share=0.2, canary_fails=0.05, incumbent_fails=0.3, tasks=500)) < 20


def test_a_bad_canary_is_found() -> None:
    """One that fails six times as often is found within 200 tasks, of which 20 are its own: in 19 of 20 trials."""
    found = [
        max(_wealths(seed, share=0.1, canary_fails=0.6, incumbent_fails=0.1, tasks=200)) >= 40 for seed in range(100)
    ]
    assert sum(found) >= 85


@pytest.mark.parametrize("y", [0.0, 1.0, 7.0, -3.0])
@pytest.mark.parametrize("canary", [True, False])
@pytest.mark.parametrize("guess", [0.0, 0.02, 0.5, 1.0])
def test_nobody_is_ever_ruined(y: float, canary: bool, guess: float) -> None:
    """No outcome takes all of the wealth, not even one that is out of bounds: it counts as the bound."""
    won = bet(y, guess=guess, lowest=0.0, highest=1.0, share=0.3, canary=canary)
    assert all(math.isfinite(log) for log in won)


def test_a_fair_lot_gains_nothing_on_average() -> None:
    """The expectation over the arms, with an outcome that both have alike, is what was put in."""
    for y, guess in ((1.0, 0.3), (0.0, 0.3), (0.4, 0.9)):
        mine = bet(y, guess=guess, lowest=0.0, highest=1.0, share=0.25, canary=True)
        theirs = bet(y, guess=guess, lowest=0.0, highest=1.0, share=0.25, canary=False)
        for a, b in zip(mine, theirs, strict=True):
            assert 1.0 == pytest.approx(0.25 * math.exp(a) + 0.75 * math.exp(b))


def test_the_wealth_is_that_of_all_stakes_together() -> None:
    """Each got its part of it at the beginning; large ones do not overflow."""
    assert 0.0 == pytest.approx(log_wealth([0.0] * 5))
    assert 2000 - math.log(2) == pytest.approx(log_wealth([2000.0, -2000.0]))
