"""A canary's trial: a share of a route's tasks tries another target, and it is taken back where it is worse.

Whose turn it is, is drawn once a task: all requests of a task, or of a conversation that names no task, meet the same
arm, whether they are answered by it or end elsewhere after a failure. Three bets run on the outcomes (see ``bets``):

* *success is rarer*: ``y`` is 1 for a task that failed;
* *a success is dearer*: ``y = min(cost / r, 4) - success``, with ``r`` the incumbent's cost per success so far. Its
  mean is above 0 exactly where a success costs more than ``r``;
* *a success is cheaper*: the same with the opposite sign.

Either of the first two takes it back at ``2 / (1 - confidence)``, so that a canary that is as good as the incumbent is
taken back with a chance of at most ``1 - confidence``, over the whole trial. The third calls it better at
``1 / (1 - confidence)``. What was decided stays so, for all replicas and over restarts.
"""

import math
from enum import StrEnum
from typing import NamedTuple

from gateway.rules.steer import Canary
from gateway.steering.bets import STAKES, bet, log_wealth
from gateway.steering.lot import lot
from gateway.steering.tallies import Tallies

_MOST_RATIO = 4.0
_ENOUGH_SUCCESSES = 5.0
_COUNTS = "trial\x1f"
_STATES = "trial_state\x1f"
_MOST_LOG_WEALTH = math.log(1e12)
_PLAIN = (0.0,) * len(STAKES)


class CanaryState(StrEnum):
    """How a trial stands."""

    RUNNING = "running"
    ROLLED_BACK = "rolled_back"
    BETTER = "better"


class Arm(NamedTuple):
    """What is known of an arm: tasks with a verdict, successes, and those of them with a known price."""

    tasks: float = 0.0
    successes: float = 0.0
    priced_successes: float = 0.0
    usd: float = 0.0

    @property
    def success_rate(self) -> float | None:
        """Successes per task; ``None`` without a task."""
        return self.successes / self.tasks if self.tasks > 0 else None

    @property
    def usd_per_success(self) -> float | None:
        """What a success costs; ``None`` without one, or where no price is known."""
        return self.usd / self.priced_successes if self.priced_successes > 0 and self.usd > 0 else None


class Standing(NamedTuple):
    """A trial as it stands: both arms, and what has been won by betting on each of the three statements.

    ``since_unix_s`` is infinite where it has not begun.
    """

    state: CanaryState
    since_unix_s: float
    canary: Arm
    incumbent: Arm
    rarer: float
    dearer: float
    cheaper: float
    needed: float


class Guess(NamedTuple):
    """What was believed of the incumbent before a task's verdict: its failures per task, and what a success costs."""

    failure: float
    usd_per_success: float | None


class Counted(NamedTuple):
    """What a task has added to a trial, and with which guess: enough to take it back, or to count it otherwise."""

    amounts: tuple[float, ...]
    guess: Guess


class Trial:
    """The trial of ``canary`` on ``route``; it begins with the first task that meets it. Sums are of all replicas."""

    def __init__(self, route: str, canary: Canary, tallies: Tallies) -> None:
        self.route = route
        self.canary = canary
        self._tallies = tallies
        self._key = canary.key(route)
        self._known: tuple[int, Standing] | None = None

    def begin(self, *, now_unix_s: float) -> None:
        """It begins now, unless it has begun before: here, on another replica, or before a restart."""
        if _STATES + self._key not in self._tallies:
            self._tallies.add(_STATES + self._key, (now_unix_s, 0.0, 0.0), at_unix_s=now_unix_s)

    def draws(self, key: str) -> bool:
        """Whether the task, or the conversation, of that name is the canary's."""
        return lot(self._key, key) < self.canary.share

    @property
    def over(self) -> bool:
        """Whether tasks are given to the two arms no more."""
        state = self.standing().state
        promoted = state is CanaryState.BETTER and self.canary.when_better == "promote"
        return promoted or state is CanaryState.ROLLED_BACK

    def standing(self) -> Standing:
        """How it stands."""
        if self._known is None or self._known[0] != self._tallies.changes:
            self._known = self._tallies.changes, self._stand()
        return self._known[1]

    def count(self, *, canary: bool, success: bool, usd: float | None, guess: Guess | None, unix_s: float) -> Counted:
        """Counts a task's verdict; ``guess`` is that of its first verdict, where this is a revised one."""
        guess = guess or self._guess()
        arm = (1.0, float(success), 0.0 if usd is None else float(success), usd or 0.0)
        arms = (*arm, *Arm()) if canary else (*Arm(), *arm)
        amounts = (*arms, *self._bets(canary=canary, success=success, usd=usd, guess=guess))
        self._tallies.add(_COUNTS + self._key, amounts, at_unix_s=unix_s)
        return Counted(amounts, guess)

    def take_back(self, counted: Counted, *, unix_s: float) -> None:
        """The verdict was another one."""
        self._tallies.add(_COUNTS + self._key, [-amount for amount in counted.amounts], at_unix_s=unix_s)

    def conclude(self, *, now_unix_s: float) -> CanaryState | None:
        """What the trial shows now for the first time, which is kept from then on; ``None`` where that is nothing."""
        standing = self.standing()
        if standing.state is CanaryState.ROLLED_BACK:
            return None
        if max(standing.rarer, standing.dearer) >= standing.needed:
            self._tallies.add(_STATES + self._key, (0.0, now_unix_s, 0.0), at_unix_s=now_unix_s)
            return CanaryState.ROLLED_BACK
        if standing.state is CanaryState.RUNNING and standing.cheaper >= 1 / (1 - self.canary.confidence):
            self._tallies.add(_STATES + self._key, (0.0, 0.0, now_unix_s), at_unix_s=now_unix_s)
            return CanaryState.BETTER
        return None

    def _stand(self) -> Standing:
        states = [part.amounts for part in self._tallies.parts(_STATES + self._key)]
        rolled_back = any(amounts[1] > 0 for amounts in states)
        better = any(amounts[2] > 0 for amounts in states)
        sums = self._tallies.total(_COUNTS + self._key, now_unix_s=0.0) or [*Arm(), *Arm(), *_PLAIN, *_PLAIN, *_PLAIN]
        arms, logs, stakes = len(Arm()), sums[2 * len(Arm()) :], len(STAKES)
        wealth = [_wealth(logs[at : at + stakes]) for at in range(0, 3 * stakes, stakes)]
        state = CanaryState.BETTER if better else CanaryState.RUNNING
        return Standing(
            state=CanaryState.ROLLED_BACK if rolled_back else state,
            since_unix_s=min((amounts[0] for amounts in states if amounts[0] > 0), default=math.inf),
            canary=Arm(*sums[:arms]),
            incumbent=Arm(*sums[arms : 2 * arms]),
            rarer=wealth[0],
            dearer=wealth[1],
            cheaper=wealth[2],
            needed=2 / (1 - self.canary.confidence),
        )

    def _guess(self) -> Guess:
        arm = self.standing().incumbent
        enough = arm.priced_successes >= _ENOUGH_SUCCESSES
        failure = (arm.tasks - arm.successes + 1) / (arm.tasks + 2)
        return Guess(min(max(failure, 0.0), 1.0), arm.usd_per_success if enough else None)

    def _bets(self, *, canary: bool, success: bool, usd: float | None, guess: Guess) -> tuple[float, ...]:
        share = self.canary.share
        rarer = bet(float(not success), guess=guess.failure, lowest=0.0, highest=1.0, share=share, canary=canary)
        if usd is None or guess.usd_per_success is None:
            return (*rarer, *_PLAIN, *_PLAIN)
        over = min(usd / guess.usd_per_success, _MOST_RATIO) - success
        dearer = bet(over, guess=0.0, lowest=-1.0, highest=_MOST_RATIO, share=share, canary=canary)
        cheaper = bet(-over, guess=0.0, lowest=-_MOST_RATIO, highest=1.0, share=share, canary=canary)
        return (*rarer, *dearer, *cheaper)


def _wealth(logs: list[float]) -> float:
    """What was won in all; no more than is of use to anybody and fits a float."""
    return math.exp(min(log_wealth(logs), _MOST_LOG_WEALTH))
