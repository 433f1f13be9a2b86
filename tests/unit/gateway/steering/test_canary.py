"""A canary's trial: who meets it, what it shows, and that it stays decided."""

from random import Random
from typing import Any

import pytest

from gateway.rules.steer import Canary
from gateway.steering.canary import CanaryState, Trial
from gateway.steering.tallies import Tallies
from gateway.steering.telling import told_of_trial

USD = 0.001


def _canary(**fields: Any) -> Canary:
    usual = {"backend": "new", "model": "m", "share": 0.1, "confidence": 0.95, "when_better": "report", "run": 1}
    return Canary(**{**usual, **fields})


def _trial(tallies: Tallies | None = None, **fields: Any) -> Trial:
    trial = Trial("chat", _canary(**fields), tallies or Tallies("a"))
    trial.begin(now_unix_s=1.0)
    return trial


def _runs(
    seed: int,
    *,
    tasks: int,
    canary: tuple[float, float] = (0.9, USD),
    incumbent: tuple[float, float] = (0.9, USD),
    **fields: Any,
) -> tuple[CanaryState, int]:
    """How a trial ends and after how many tasks; each arm has a success rate and a mean cost (of exponential costs)."""
    trial, rng = _trial(Tallies(f"seed-{seed}"), **fields), Random(seed)  # noqa: S311  # a test's dice
    for task in range(1, tasks + 1):
        mine = trial.draws(f"{seed}/{task}")
        rate, usd = canary if mine else incumbent
        trial.count(
            canary=mine, success=rng.random() < rate, usd=rng.expovariate(1 / usd), guess=None, unix_s=float(task)
        )
        state = trial.conclude(now_unix_s=float(task))
        if state is not None:
            return state, task
    return trial.standing().state, tasks


def test_a_share_of_the_tasks_meets_it_and_always_the_same() -> None:
    """By lot over their names; another run of the trial draws anew."""
    first, again, other = _trial(), _trial(), _trial(run=2)
    drawn = [first.draws(f"task-{n}") for n in range(5000)]
    assert drawn == [again.draws(f"task-{n}") for n in range(5000)]
    assert 0.1 == pytest.approx(sum(drawn) / 5000, abs=0.02)
    assert drawn != [other.draws(f"task-{n}") for n in range(5000)]


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_one_that_is_as_good_is_rolled_back_no_more_often_than_it_says(share: float) -> None:
    """Looked at after every task, of 300, with costs that vary as widely as their mean.

    Of 100 trials 5 may be taken back on average; 14 or more come up once in two thousand times at that bound.
    """
    states = [_runs(seed, tasks=300, share=share)[0] for seed in range(100)]
    assert states.count(CanaryState.ROLLED_BACK) < 14


def test_one_that_fails_is_rolled_back_within_200_tasks() -> None:
    """Three in ten instead of nine in ten: found in 19 of 20 trials, a tenth of the tasks being its own."""
    ends = [_runs(seed, tasks=200, canary=(0.3, USD)) for seed in range(60)]
    assert sum(state is CanaryState.ROLLED_BACK for state, _ in ends) >= 54


def test_one_that_costs_three_times_as_much_is_rolled_back() -> None:
    """Though it succeeds as often."""
    ends = [_runs(seed, tasks=1500, canary=(0.9, 3 * USD)) for seed in range(20)]
    assert sum(state is CanaryState.ROLLED_BACK for state, _ in ends) >= 18


def test_one_that_costs_more_and_succeeds_more_often_is_not_rolled_back() -> None:
    """What a success costs is what counts: twice the price for more than twice the successes."""
    ends = [_runs(seed, tasks=500, canary=(0.95, 2 * USD), incumbent=(0.4, USD)) for seed in range(40)]
    assert sum(state is CanaryState.ROLLED_BACK for state, _ in ends) <= 4


def test_one_that_makes_success_cheaper_is_found_to_be_better() -> None:
    """A fifth of the price for as many successes."""
    ends = [_runs(seed, tasks=2000, share=0.3, canary=(0.9, USD / 5)) for seed in range(20)]
    assert sum(state is CanaryState.BETTER for state, _ in ends) >= 18


def _failing(tallies: Tallies, tasks: int = 400) -> Trial:
    trial = _trial(tallies)
    for task in range(tasks):
        mine = trial.draws(str(task))
        trial.count(canary=mine, success=not mine, usd=USD, guess=None, unix_s=1.0)
    return trial


def test_what_was_decided_stays_so() -> None:
    """Over a restart, for other replicas, and also where a verdict that spoke against it is taken back."""
    tallies = Tallies("a")
    trial = _failing(tallies)
    assert CanaryState.ROLLED_BACK is trial.conclude(now_unix_s=500.0)
    assert trial.conclude(now_unix_s=501.0) is None
    assert trial.over
    again = Tallies("b")
    again.resume(tallies.record())
    assert CanaryState.ROLLED_BACK is _trial(again).standing().state
    assert CanaryState.RUNNING is _trial(again, run=2).standing().state


def test_two_replicas_find_together_what_neither_would_alone() -> None:
    """Each sees half of the tasks."""
    replicas = [Tallies("a"), Tallies("b")]
    trials = [_trial(tallies, share=0.3) for tallies in replicas]
    for task in range(30):
        mine = trials[0].draws(str(task))
        trials[task % 2].count(canary=mine, success=not mine, usd=USD, guess=None, unix_s=1.0)
    apart = [trial.standing() for trial in trials]
    replicas[0].resume(replicas[1].record())
    together = trials[0].standing()
    assert together.canary.tasks == apart[0].canary.tasks + apart[1].canary.tasks
    assert together.rarer > max(standing.rarer for standing in apart)


def test_a_revised_verdict_leaves_nothing_of_the_old_one() -> None:
    """The sums and the bets are those of the last word, made with the guess of the first."""
    revised, plain = _trial(Tallies("a")), _trial(Tallies("b"))
    for trial in (revised, plain):
        for task in range(50):
            trial.count(canary=task % 10 == 0, success=task % 3 > 0, usd=USD, guess=None, unix_s=1.0)
    first = revised.count(canary=True, success=True, usd=USD, guess=None, unix_s=1.0)
    revised.take_back(first, unix_s=1.0)
    revised.count(canary=True, success=False, usd=USD, guess=first.guess, unix_s=1.0)
    plain.count(canary=True, success=False, usd=USD, guess=first.guess, unix_s=1.0)
    assert pytest.approx(list(plain.standing()[2])) == list(revised.standing()[2])
    assert plain.standing().rarer == pytest.approx(revised.standing().rarer)


def test_without_a_known_price_only_success_is_compared() -> None:
    """Nobody bets on a cost that nobody knows."""
    trial = _trial()
    for task in range(100):
        trial.count(canary=task % 10 == 0, success=True, usd=None, guess=None, unix_s=1.0)
    standing = trial.standing()
    assert (1.0, 1.0) == (standing.dearer, standing.cheaper)
    assert standing.incumbent.usd_per_success is None


def test_it_says_why_with_its_numbers() -> None:
    """What was found, how sure it is, and what was seen of both."""
    trial = _failing(Tallies("a"))
    assert "evidence against it" in told_of_trial("chat", trial.canary, trial.standing())
    trial.conclude(now_unix_s=500.0)
    told = told_of_trial("chat", trial.canary, trial.standing())
    assert told.startswith("canary new/m of route chat is rolled back: success is rarer (evidence ")
    assert "0.0% of 4" in told
    assert "100.0% of 35" in told or "100.0% of 36" in told
    fresh = _trial(Tallies("c"))
    assert "no verdict yet there, no verdict yet beside it" in told_of_trial("chat", fresh.canary, fresh.standing())
