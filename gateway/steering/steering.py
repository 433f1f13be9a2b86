"""Steers routes by success: what verdicts taught goes onto the candidates, a few tasks explore, a canary is watched."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from gateway.decide import decide
from gateway.limits.gate import Gate
from gateway.ports import Clock, Shared
from gateway.rules.route import Route
from gateway.rules.steer import Explore, Steer
from gateway.steering.canary import CanaryState, Trial
from gateway.steering.evidence import Chance
from gateway.steering.explore import Explored, Explorer
from gateway.steering.lessons import Lessons
from gateway.steering.lot import draw, stays_with
from gateway.steering.report import route_report
from gateway.steering.tallies import Tallies
from gateway.success import Success
from gateway.task import Verdict
from gateway.types import Candidate, ChatRequest, Context, Decision

MEET_EVERY_S = 2.0
"""How often replicas look at what the others have learned."""

_TALLIES = "tallies"
_EXPLORED = "explored\x1f"


class Steering:
    """What is learned of all routes that steer. One instance outlives every reload of the policy file.

    It observes verdicts, and keeps and shares what it learns as a ``Learner``.

    Args:
        clock: the time.
        seat: the name of this process among all that ever share what they learn.
        gate: keeps the budgets of exploring; ``None`` where there are none.
    """

    def __init__(self, *, clock: Clock, seat: str, gate: Gate | None = None) -> None:
        self._tallies = Tallies(seat)
        self._lessons = Lessons(self._tallies, clock)
        self._explorer = Explorer(gate, clock)
        self._clock = clock
        self._meeting: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return "Steering()"  # its records are those of every configuration

    @property
    def steers(self) -> bool:
        """Whether any route does."""
        return bool(self._lessons.steers)

    def follow(self, routes: Sequence[Route]) -> None:
        """These are the routes of the policy; who does not steer is left alone."""
        self._lessons.follow(routes)

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
        drawn = tuple([self._drawn(route, steer, ctx, one, key) for one in known])
        return await self._tried(route, steer.explore, best, decide(route, ctx, drawn))

    def with_success(
        self, route: Route, steer: Steer, ctx: Context, candidates: tuple[Candidate, ...]
    ) -> tuple[Candidate, ...]:
        """The candidates with what is known of them, and the canary where it belongs."""
        known = [replace(one, success=self._known(route, steer, ctx, one)[1]) for one in candidates]
        trial = self._lessons.trials.get(route.name)
        at = next((at for at, target in enumerate(route.targets) if target.canary), None)
        if trial is not None and at is not None:
            known[at] = self._placed(known[at], trial, ctx.request)
        return tuple(known)

    def _known(self, route: Route, steer: Steer, ctx: Context, candidate: Candidate) -> tuple[Chance, Success]:
        return self._lessons.evidence.chance(
            route.name,
            (ctx.forecast.kind, candidate.backend, candidate.model),
            now_unix_s=self._clock.unix_s(),
            half_life_s=steer.half_life_s,
            confidence=steer.confidence,
        )

    def _placed(self, candidate: Candidate, trial: Trial, request: ChatRequest) -> Candidate:
        """The canary as this task meets it: first of all, or not at all."""
        canary, standing = trial.canary, trial.standing()
        if standing.state is CanaryState.ROLLED_BACK:
            return replace(candidate, down="canary: rolled back", retry_in_s=None)
        if standing.state is CanaryState.BETTER and canary.when_better == "promote":
            return candidate
        if self._lessons.draws(trial, request):
            return replace(candidate, goes_first=True)
        reason = f"canary: {canary.share:.1%} of the tasks go there, not this one"
        return replace(candidate, down=reason, retry_in_s=None)

    def _drawn(self, route: Route, steer: Steer, ctx: Context, candidate: Candidate, key: str) -> Candidate:
        """The candidate with a chance drawn from all that it may be."""
        chance, success = self._known(route, steer, ctx, candidate)
        p = draw(chance.successes, chance.failures, "draw", route.name, key, candidate.backend, candidate.model)
        return replace(candidate, success=replace(success, p=p, drawn=True))

    async def _tried(self, route: Route, explore: Explore, best: Decision, tried: Decision) -> Decision:
        """``tried``, where it goes elsewhere than ``best`` and the budget pays for it."""
        as_expected = {(bill.candidate.backend, bill.candidate.model): bill.total_usd for bill in best.order}
        first, best_first = tried.order[0].candidate, best.order[0]
        total_usd = as_expected[first.backend, first.model]
        ctx = best.ctx
        if total_usd == best_first.total_usd or ctx is None:
            return best
        usd = max(total_usd - best_first.total_usd, 0.0)
        if not await self._explorer.pay(route.name, explore, request_id=ctx.request.arrival.id, usd=usd):
            return best
        self._tallies.add(_EXPLORED + route.name, (1.0, usd), at_unix_s=self._clock.unix_s())
        return tried

    # ---- a learner --------------------------------------------------------------------------------------------------

    def judged(self, verdict: Verdict) -> None:
        """Learns from a verdict, and unlearns what it revises."""
        self._lessons.judged(verdict)

    def share(self, shared: Shared) -> None:
        """Where replicas leave what they add to the sums."""
        self._tallies.share(shared)

    def meet(self) -> None:
        """Tells the other replicas what was learned here, and takes in what they learned."""
        if self.steers:
            self._tallies.meet()
            self._lessons.conclude()

    def learned(self) -> Iterator[tuple[str, bytes]]:
        """All sums, in one record."""
        if self._tallies.names(""):  # also of routes that do not steer just now
            yield _TALLIES, self._tallies.record()

    def resume(self, record: bytes) -> None:
        """Takes back a record.

        Raises:
            ValueError: it is none.
        """
        self._tallies.resume(record)

    async def _meet_on(self) -> None:
        while True:
            await self._clock.sleep(MEET_EVERY_S)
            self.meet()

    # ---- for people -------------------------------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        """What is known of each route that steers."""
        now_s = self._clock.unix_s()
        return {
            route: route_report(
                route,
                steer,
                self._lessons.evidence,
                now_unix_s=now_s,
                explored=self._explored(route),
                trial=self._lessons.trials.get(route),
            )
            for route, steer in self._lessons.steers.items()
        }

    def trials(self) -> Iterator[tuple[str, CanaryState]]:
        """How the canary of each route stands that has one."""
        for route, trial in self._lessons.trials.items():
            yield route, trial.standing().state

    def _explored(self, route: str) -> Explored:
        requests, usd = self._tallies.total(_EXPLORED + route, now_unix_s=0.0) or (0.0, 0.0)
        return Explored(round(requests), usd)
