"""What verdicts teach: the evidence of each route that steers, and the trials of its canaries."""

import logging
from collections import OrderedDict
from collections.abc import Sequence

from gateway.ports import Clock
from gateway.rules.route import Route
from gateway.rules.steer import Steer
from gateway.steering.canary import CanaryState, Trial
from gateway.steering.evidence import Evidence
from gateway.steering.lot import stays_with, task_key
from gateway.steering.tallies import Tallies
from gateway.steering.telling import told_of_trial
from gateway.steering.verdicts import MOST_TASKS, Account, Change, Key, Verdicts
from gateway.task import JudgedRequest, Verdict
from gateway.types import ChatRequest

_MOST_ARMS = 20_000

_log = logging.getLogger(__name__)


class Lessons:
    """Learns from verdicts on the routes that it follows, and unlearns what they revise.

    ``steers`` and ``trials`` are those of the present policy, by route.
    """

    def __init__(self, tallies: Tallies, clock: Clock) -> None:
        self.evidence = Evidence(tallies)
        self.steers: dict[str, Steer] = {}
        self.trials: dict[str, Trial] = {}
        self._tallies = tallies
        self._clock = clock
        self._verdicts = Verdicts()
        self._arms: OrderedDict[str, tuple[bool, str]] = OrderedDict()
        self._spoken: OrderedDict[tuple[str, str], None] = OrderedDict()

    def follow(self, routes: Sequence[Route]) -> None:
        """These are the routes of the policy; a trial that stays as it was goes on."""
        self.steers = {route.name: route.steer for route in routes if route.steer is not None}
        trials: dict[str, Trial] = {}
        for name, steer in self.steers.items():
            if steer.canary is None:
                continue
            known = self.trials.get(name)
            same = known is not None and known.canary == steer.canary
            trials[name] = known if known is not None and same else Trial(name, steer.canary, self._tallies)
        self.trials = trials

    def draws(self, trial: Trial, request: ChatRequest) -> bool:
        """Whether the request is the canary's; remembered where a verdict on it will come by its own id."""
        trial.begin(now_unix_s=self._clock.unix_s())
        key = stays_with(request)
        drawn = trial.draws(key)
        if request.arrival.task is None:
            self._arms[request.arrival.id] = drawn, key
            if len(self._arms) > _MOST_ARMS:
                self._arms.popitem(last=False)
        return drawn

    def judged(self, verdict: Verdict) -> None:
        """Learns from a verdict."""
        for change in self._verdicts.take(verdict) if self.steers else ():
            self._count(change.before, taken_back=True)
            self._count(change.after, taken_back=False)
            for name in {request.route for request in (*change.before.requests, *change.after.requests)}:
                trial = self.trials.get(name)
                if trial is not None:
                    self._try(trial, change)

    def conclude(self) -> None:
        """Decides what the sums of all replicas show by now."""
        for trial in self.trials.values():
            self._conclude(trial)

    def _count(self, account: Account, *, taken_back: bool) -> None:
        answered = [request for request in account.requests if request.answered]
        if account.success is None or not answered:
            return
        for request in answered:
            steer = self.steers.get(request.route)
            if steer is not None:
                self.evidence.count(
                    request,
                    share=1 / len(answered),
                    success=account.success,
                    half_life_s=steer.half_life_s,
                    taken_back=taken_back,
                )

    def _try(self, trial: Trial, change: Change) -> None:
        now_s, before, after = self._clock.unix_s(), change.before, change.after
        counted = before.trials.get(trial.route)
        if counted is not None:
            trial.take_back(counted, unix_s=now_s)
            self._spoken.pop((trial.route, self._arm(trial, change.task, before.requests)[1]), None)
        requests = [request for request in after.requests if request.route == trial.route and request.shown]
        begun_s = min((request.received_unix_s for request in requests), default=0.0)
        # A task that another replica has counted, or that was forgotten, is left as it was: its guess is not known.
        met = any(request.route == trial.route for request in before.requests)
        elsewhere = before.success is not None and counted is None and met
        if after.success is None or elsewhere or not requests or begun_s < trial.standing().since_unix_s or trial.over:
            return
        canary, lot_key = self._arm(trial, change.task, requests)
        if (trial.route, lot_key) in self._spoken:  # one lot is one observation, however many answers follow from it
            return
        self._spoken[trial.route, lot_key] = None
        if len(self._spoken) > MOST_TASKS:
            self._spoken.popitem(last=False)
        after.trials[trial.route] = trial.count(
            canary=canary,
            success=after.success,
            usd=_usd(requests),
            guess=counted.guess if counted is not None else None,
            unix_s=now_s,
        )
        self._conclude(trial)

    def _arm(self, trial: Trial, task: Key, requests: Sequence[JudgedRequest]) -> tuple[bool, str]:
        """Whether the task was the canary's, and the name under which that was drawn."""
        met = self._arms.get(requests[0].id)
        key = task_key(*task)
        return (trial.draws(key), key) if met is None else met

    def _conclude(self, trial: Trial) -> None:
        state = trial.conclude(now_unix_s=self._clock.unix_s())
        if state is not None:
            level = logging.WARNING if state is CanaryState.ROLLED_BACK else logging.INFO
            _log.log(level, "%s", told_of_trial(trial.route, trial.canary, trial.standing()))


def _usd(requests: Sequence[JudgedRequest]) -> float | None:
    """What the requests cost together; ``None`` as soon as one's price is unknown."""
    known = [request.cost_usd for request in requests if request.cost_usd is not None]
    return float(sum(known)) if len(known) == len(requests) else None
