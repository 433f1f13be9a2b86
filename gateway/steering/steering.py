"""Steers routes by success: what verdicts taught goes onto the candidates, a few tasks explore, a canary is watched."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gateway.decide import decide
from gateway.limits.gate import Gate
from gateway.ports import Clock, Shared
from gateway.rules.route import Route
from gateway.rules.steer import Explore, Steer
from gateway.steering.canary import CanaryState, Trial
from gateway.steering.evidence import Evidence
from gateway.steering.explore import Explorer
from gateway.steering.lot import draw, stays_with, task_key
from gateway.steering.tallies import Tallies
from gateway.steering.telling import told_of_trial
from gateway.steering.verdicts import Account, Verdicts
from gateway.task import JudgedRequest, Verdict
from gateway.types import Candidate, ChatRequest, Context, Decision

MEET_EVERY_S = 2.0
"""How often replicas look at what the others have learned."""

_MOST_ARMS = 20_000
_TALLIES = "tallies"
_EXPLORED = "explored\x1f"

_log = logging.getLogger(__name__)


class Steering:
    """What is learned of all routes that steer. One instance outlives every reload of the policy file.

    It observes verdicts, and keeps and shares what it learns as a ``Learner``.

    Args:
        clock: the time.
        seat: the name of this process among all that ever share what they learn.
        gate: keeps the budgets of exploring; ``None`` where there are none.
    """

    def __init__(self, *, clock: Clock, seat: str, gate: Gate | None = None) -> None:
        self.tallies = Tallies(seat)
        self.evidence = Evidence(self.tallies)
        self._clock = clock
        self._explorer = Explorer(gate, clock)
        self._verdicts = Verdicts()
        self._steers: dict[str, Steer] = {}
        self._trials: dict[str, Trial] = {}
        self._arms: OrderedDict[str, bool] = OrderedDict()
        self._meeting: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return "Steering()"  # its records are those of every configuration

    def follow(self, routes: Sequence[Route]) -> None:
        """These are the routes of the policy; who does not steer is left alone."""
        now_s = self._clock.unix_s()
        self._steers = {route.name: route.steer for route in routes if route.steer is not None}
        trials = {}
        for name, steer in self._steers.items():
            if steer.canary is not None:
                known = self._trials.get(name)
                same = known is not None and known.canary == steer.canary
                trials[name] = (
                    known if known is not None and same else Trial(name, steer.canary, self.tallies, now_unix_s=now_s)
                )
        self._trials = trials

    @property
    def steers(self) -> bool:
        """Whether any route does."""
        return bool(self._steers)

    def start(self) -> None:
        """Begins to look at what the other replicas learn."""
        if self._meeting is None:
            self._meeting = asyncio.create_task(self._meet_on(), name="headrace-steering")

    async def close(self) -> None:
        """Tells the others the last of it; idempotent."""
        task, self._meeting = self._meeting, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            self.meet()

    # ---- a request --------------------------------------------------------------------------------------------------

    async def decide(self, route: Route, ctx: Context, candidates: tuple[Candidate, ...]) -> Decision:
        """The decision among the candidates, by what is known of each; a task whose turn it is explores."""
        steer = route.steer
        if steer is None:
            return decide(route, ctx, candidates)
        known = self.with_success(route, steer, ctx, candidates)
        best = decide(route, ctx, known)
        if steer.explore is None or not best.order or best.order[0].candidate.goes_first:
            return best
        key = stays_with(ctx.request)
        if not self._explorer.turn(route.name, steer.explore, key):
            return best
        return await self._explore(route, steer.explore, ctx, (key, known), best)

    def with_success(
        self, route: Route, steer: Steer, ctx: Context, candidates: tuple[Candidate, ...]
    ) -> tuple[Candidate, ...]:
        """The candidates with what is known of them, and the canary where it belongs."""
        now_s = self._clock.unix_s()
        kind = ctx.forecast.kind
        known = []
        for one in candidates:
            _, success = self.evidence.chance(
                route.name,
                (kind, one.backend, one.model),
                now_unix_s=now_s,
                half_life_s=steer.half_life_s,
                confidence=steer.confidence,
            )
            known.append(replace(one, success=success))
        trial = self._trials.get(route.name)
        if trial is not None and route.steer is steer:
            at = next((at for at, target in enumerate(route.targets) if target.canary), None)
            if at is not None:
                known[at] = self._placed(known[at], trial, ctx.request)
        return tuple(known)

    def _placed(self, candidate: Candidate, trial: Trial, request: ChatRequest) -> Candidate:
        """The canary as this task meets it: first of all, or not at all."""
        canary, standing = trial.canary, trial.standing()
        if standing.state is CanaryState.ROLLED_BACK:
            return replace(candidate, down="canary: rolled back", retry_in_s=None)
        if standing.state is CanaryState.BETTER and canary.when_better == "promote":
            return candidate
        drawn = trial.draws(stays_with(request))
        self._remember_arm(request, canary=drawn)
        if drawn:
            return replace(candidate, goes_first=True)
        return replace(
            candidate, down=f"canary: {canary.share:.1%} of the tasks go there, not this one", retry_in_s=None
        )

    async def _explore(
        self, route: Route, explore: Explore, ctx: Context, known: tuple[str, tuple[Candidate, ...]], best: Decision
    ) -> Decision:
        """The decision by drawn chances, where the budget pays for it; else ``best``."""
        key, candidates = known
        drawn = [self._drawn(route, ctx, one, key) for one in candidates]
        tried = decide(route, ctx, tuple(drawn))
        first, best_first = tried.order[0].candidate, best.order[0]
        if (first.backend, first.model) == (best_first.candidate.backend, best_first.candidate.model):
            return best
        as_expected = {(bill.candidate.backend, bill.candidate.model): bill.total_usd for bill in best.order}
        usd = max(as_expected.get((first.backend, first.model), best_first.total_usd) - best_first.total_usd, 0.0)
        if not await self._explorer.pay(route.name, explore, request_id=ctx.request.arrival.id, usd=usd):
            return best
        self.tallies.add(_EXPLORED + route.name, (1.0, usd), at_unix_s=self._clock.unix_s())
        return tried

    def _drawn(self, route: Route, ctx: Context, candidate: Candidate, key: str) -> Candidate:
        steer, success = route.steer, candidate.success
        if steer is None or success is None:
            return candidate
        chance, _ = self.evidence.chance(
            route.name,
            (ctx.forecast.kind, candidate.backend, candidate.model),
            now_unix_s=self._clock.unix_s(),
            half_life_s=steer.half_life_s,
            confidence=steer.confidence,
        )
        p = draw(chance.successes, chance.failures, "draw", route.name, key, candidate.backend, candidate.model)
        return replace(candidate, success=replace(success, p=p, drawn=True))

    # ---- what is learned --------------------------------------------------------------------------------------------

    def _remember_arm(self, request: ChatRequest, *, canary: bool) -> None:
        """A conversation that names no task is judged request by request: verdicts on it come by their ids."""
        if request.arrival.task is None:
            self._arms[request.arrival.id] = canary
            if len(self._arms) > _MOST_ARMS:
                self._arms.popitem(last=False)

    def judged(self, verdict: Verdict) -> None:
        """Learns from a verdict, and unlearns what it revises."""
        if not self._steers:
            return
        change = self._verdicts.take(verdict)
        if change is None:
            return
        self._count(change.before, taken_back=True)
        self._count(change.after, taken_back=False)
        for name in {request.route for request in (*change.before.requests, *change.after.requests)}:
            trial = self._trials.get(name)
            if trial is not None:
                self._try(trial, verdict, change.before, change.after)

    def _count(self, account: Account, *, taken_back: bool) -> None:
        answered = [request for request in account.requests if request.answered]
        if account.success is None or not answered:
            return
        for request in answered:
            steer = self._steers.get(request.route)
            if steer is not None:
                self.evidence.count(
                    request,
                    share=1 / len(answered),
                    success=account.success,
                    half_life_s=steer.half_life_s,
                    taken_back=taken_back,
                )

    def _try(self, trial: Trial, verdict: Verdict, before: Account, after: Account) -> None:
        now_s = self._clock.unix_s()
        counted = before.trials.get(trial.route)
        if counted is not None:
            trial.take_back(counted, unix_s=now_s)
        requests = [request for request in after.requests if request.route == trial.route]
        begun_s = min((request.received_unix_s for request in requests), default=0.0)
        # A task that another replica has counted, or that was forgotten, is left as it was: its guess is not known
        # here.
        met = any(request.route == trial.route for request in before.requests)
        elsewhere = before.success is not None and counted is None and met
        if after.success is None or elsewhere or not requests or begun_s < trial.standing().since_unix_s or trial.over:
            return
        after.trials[trial.route] = trial.count(
            canary=self._is_canarys(trial, verdict),
            success=after.success,
            usd=_usd(requests),
            guess=counted.guess if counted is not None else None,
            unix_s=now_s,
        )
        self._conclude(trial)

    def _is_canarys(self, trial: Trial, verdict: Verdict) -> bool:
        met = self._arms.get(verdict.task)
        return trial.draws(task_key(verdict.tenant, verdict.task)) if met is None else met

    def _conclude(self, trial: Trial) -> None:
        state = trial.conclude(now_unix_s=self._clock.unix_s())
        if state is CanaryState.ROLLED_BACK:
            _log.warning("%s", told_of_trial(trial.route, trial.canary, trial.standing()))
        elif state is not None:
            _log.info("%s", told_of_trial(trial.route, trial.canary, trial.standing()))

    # ---- a learner --------------------------------------------------------------------------------------------------

    def share(self, shared: Shared) -> None:
        """Where replicas leave what they add to the sums."""
        self.tallies.share(shared)

    def meet(self) -> None:
        """Tells the other replicas what was learned here, and takes in what they learned."""
        if self._steers:
            self.tallies.meet()
            for trial in self._trials.values():
                self._conclude(trial)

    async def _meet_on(self) -> None:
        while True:
            await self._clock.sleep(MEET_EVERY_S)
            self.meet()

    def learned(self) -> Iterator[tuple[str, bytes]]:
        """All sums, in one record."""
        if self.tallies.names(""):  # also of routes that do not steer just now
            yield _TALLIES, self.tallies.record()

    def resume(self, record: bytes) -> None:
        """Takes back a record.

        Raises:
            ValueError: it is none.
        """
        self.tallies.resume(record)

    # ---- for people -------------------------------------------------------------------------------------------------

    def trials(self) -> dict[str, Trial]:
        """The canaries' trials, by route."""
        return dict(self._trials)

    def explored(self, route: str) -> tuple[int, float]:
        """How many requests went elsewhere than expected to be best, and what that was expected to cost, in all."""
        tries, usd = self.tallies.total(_EXPLORED + route, now_unix_s=0.0) or (0.0, 0.0)
        return round(tries), usd


def _usd(requests: Sequence[JudgedRequest]) -> float | None:
    """What the requests cost together; ``None`` as soon as one's price is unknown."""
    known = [request.cost_usd for request in requests if request.cost_usd is not None]
    return float(sum(known)) if len(known) == len(requests) else None
