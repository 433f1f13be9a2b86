"""What becomes of a request that its limits have let in: a kept answer, or a place, a decision, and attempts."""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from gateway.attempt.admitted import Admitted
from gateway.attempt.afterwards import Afterwards
from gateway.attempt.cached import Cached
from gateway.attempt.failover import Failover
from gateway.attempt.hedge import Hedger
from gateway.attempt.spillover import Spillover
from gateway.attempt.time_limit import TimeLimits
from gateway.attempt.trial import Bench
from gateway.decide import decide
from gateway.exchange import Exchange
from gateway.ledger.journal import Journal
from gateway.limits.limit import Limit
from gateway.rules.route import Hedge, Route
from gateway.rules.world import World
from gateway.steering.steering import Steering
from gateway.types import Context, Decision, Exclusion

Served = Coroutine[Any, Any, None]
"""To be awaited at once: it serves the request.

Raises:
    HeadraceError: why it could not be served.
"""


class Serving:
    """Serves requests, each by what its route asks for and no more.

    Its functions hand out coroutines and await none of one another's: each that stood in between would be entered
    again whenever the request goes on.
    """

    def __init__(self, bench: Bench, afterwards: Afterwards) -> None:
        self._bench = bench
        self._afterwards = afterwards
        self._time_limits: TimeLimits | None = None
        self._hedgers: dict[str, tuple[Hedge, Hedger]] = {}

    def time_limits(self) -> TimeLimits:
        """Those of the one loop that all of it runs on, which is there with the first request."""
        if self._time_limits is None:
            self._time_limits = TimeLimits(asyncio.get_running_loop())
        return self._time_limits

    def serve(
        self, limits: Sequence[Limit], world: World, route: Route, ctx: Context, journal: Journal, exchange: Exchange
    ) -> Served:
        """Answers it out of the route's cache, or by a backend; ``limits`` are those that it is inside of."""
        if route.cache is None:
            return self._admit(limits, world, route, ctx, journal, exchange)
        admit = partial(self._admit, limits, world, route, ctx, journal)
        return Cached(route.cache, world, route, ctx, journal, exchange, self._bench.clock, admit).run()

    def _admit(
        self, limits: Sequence[Limit], world: World, route: Route, ctx: Context, journal: Journal, exchange: Exchange
    ) -> Served:
        """Serves it when there is a place for it."""
        if route.spill is None:
            return self._in_place(world, route, ctx, journal, exchange)
        return Spillover(
            bench=self._bench,
            world=world,
            route=route,
            spill=route.spill,
            ctx=ctx,
            journal=journal,
            exchange=exchange,
            own_limits=limits,
            serve=partial(self._attempt, world, ctx, journal, exchange),
        ).run(self._bench.fleet.rooms.of(route, world.backends))

    async def _in_place(self, world: World, route: Route, ctx: Context, journal: Journal, exchange: Exchange) -> None:
        room = self._bench.fleet.rooms.of(route, world.backends)
        async with Admitted(route.admitter.admit(ctx, room), journal):
            await self._attempt(world, ctx, journal, exchange, route)

    def _attempt(
        self,
        world: World,
        ctx: Context,
        journal: Journal,
        exchange: Exchange,
        route: Route,
        besides: Sequence[Exclusion] = (),
    ) -> Served:
        """Decides on what is true now, and attempts; ``besides`` are candidates that are out before."""
        loop = Failover(
            bench=self._bench,
            world=world,
            route=route,
            ctx=ctx,
            journal=journal,
            exchange=exchange,
            limits=self.time_limits(),
            hedger=None if route.hedge is None else self._hedger(route.name, route.hedge),
            made=len(journal.attempts),
        )
        if route.steer is not None and self._bench.steering is not None:
            return self._steered(self._bench.steering, loop, besides)
        return self._run(loop, decide(route, ctx, self._bench.fleet.snapshot(route, ctx, world.backends)), besides)

    async def _steered(self, steering: Steering, loop: Failover, besides: Sequence[Exclusion]) -> None:
        candidates = self._bench.fleet.snapshot(loop.route, loop.ctx, loop.world.backends)
        await self._run(loop, await steering.decide(loop.route, loop.ctx, candidates), besides)

    def _run(self, loop: Failover, decision: Decision, besides: Sequence[Exclusion]) -> Served:
        journal = loop.journal
        if besides:
            decision = replace(decision, excluded=(*decision.excluded, *besides))
        journal.decision = decision
        chain = self._bench.fleet.chains.chain(loop.ctx.request)
        journal.chunks = (chain.digests, chain.ends_bytes)
        return self._afterwards.attempt(loop, decision) if loop.route.watched else loop.run(decision)

    def _hedger(self, route: str, hedge: Hedge) -> Hedger:
        """The route's, kept for as long as the route stays as it is: what it may spend is earned over time."""
        known = self._hedgers.get(route)
        if known is None or known[0] != hedge:
            known = self._hedgers[route] = (hedge, Hedger(hedge))
        return known[1]
