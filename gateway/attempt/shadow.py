"""Shadows: copies of requests that another backend answers after the client has its answer, judged and never shown.

A copy costs the client no time and its request no money: what it costs is on the ledger apart, and within a budget of
its own. Whatever speaks against it (a price that nobody knows, a budget that is used up, people who wait, a busy
machine or backend) means that it is not sent, and the docket counts it as skipped.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace

from gateway.attempt.failover import Failover
from gateway.attempt.time_limit import TimeLimits
from gateway.attempt.trial import Bench
from gateway.decide import decide
from gateway.errors import HeadraceError, Rejected
from gateway.judgement import JudgedAnswer, Judgement, Occasion, cannot_say, failed
from gateway.judging.docket import Case, Docket
from gateway.judging.draft import draft
from gateway.judging.overheard import Unheard
from gateway.ledger.journal import Journal
from gateway.limits.gate import Gate, dearest_usd, expected, taken
from gateway.rules.judging import drawn
from gateway.rules.route import Route, Shadow
from gateway.rules.world import World
from gateway.types import Candidate, Context, Decision


def load_per_core() -> float:
    """How many processes want to run for each of the machine's cores, over the last minute."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


class Shadows:
    """Sends copies, and ends them at the shutdown. ``load`` is the machine's, for each of its cores."""

    def __init__(self, bench: Bench, docket: Docket, *, load: Callable[[], float] = load_per_core) -> None:
        self._bench = bench
        self._docket = docket
        self._load = load
        self._running: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def running(self) -> int:
        """Copies under way."""
        return len(self._tasks)

    def send(self, world: World, route: Route, ctx: Context, limits: TimeLimits) -> None:
        """Sends a copy of a request that has been answered, if it is drawn and nothing speaks against it."""
        shadow = route.shadow
        if shadow is None or not drawn(ctx.request.arrival.id, "shadow", shadow.share):
            return
        against = self._against(world, route.name, shadow)
        if against:
            self._docket.skip(route.name, against)
            return
        copy = _Copy(self._bench, self._docket, world, route.name, shadow, ctx)
        self._running[route.name] += 1
        task = asyncio.get_running_loop().create_task(self._run(copy, limits), name="headrace-shadow")
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(done, route.name))

    async def settled(self) -> None:
        """Returns when all copies that run now have ended."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def close(self) -> None:
        """Ends all copies; none is sent any more. Idempotent."""
        self._closed = True
        for task in tuple(self._tasks):
            task.cancel()
        await self.settled()

    def _against(self, world: World, route: str, shadow: Shadow) -> str:
        if self._closed:
            return "shutting_down"
        if self._running[route] >= shadow.concurrency:
            return "concurrency"
        if any(getattr(admitter, "waiting", 0) for admitter in world.admitters().values()):
            return "somebody_waits"
        return "machine_busy" if self._load() > shadow.most_load else ""

    async def _run(self, copy: "_Copy", limits: TimeLimits) -> None:
        against = await copy.run(limits)
        if against:
            self._docket.skip(copy.route, against)

    def _ended(self, task: asyncio.Task[None], route: str) -> None:
        self._tasks.discard(task)
        self._running[route] -= 1


class _Copy:
    """One copy of one request."""

    def __init__(self, bench: Bench, docket: Docket, world: World, route: str, shadow: Shadow, ctx: Context) -> None:
        request = replace(ctx.request, arrival=replace(ctx.request.arrival, id=f"{ctx.request.arrival.id}-shadow"))
        self.route = route
        self._bench = bench
        self._docket = docket
        self._world = world
        self._shadow = shadow
        self._ctx = replace(ctx, request=request, deadline=None)
        self._journal = Journal(ctx.request.arrival, route=route, forecast=ctx.forecast)
        self._exchange = Unheard(request.arrival.operation)

    async def run(self, limits: TimeLimits) -> str:
        """Sends it and has the answer judged; in a word why not, where it was not sent."""
        route, gate = self._shadow.route, self._bench.gate
        decision = decide(route, self._ctx, self._bench.fleet.snapshot(route, self._ctx, self._world.backends))
        against = _against(decision)
        if against or gate is None:
            return against or "no_budget"
        try:
            await self._reserve(gate, decision.order[0].candidate)
        except Rejected:
            return "budget"
        try:
            await self._attempt(decision, limits)
        finally:
            gate.leave(self._name, taken(self._journal.attempts))
        return ""

    async def _reserve(self, gate: Gate, candidate: Candidate) -> None:
        forecast = self._ctx.forecast
        claim = expected(forecast, dearest_usd(forecast, [candidate]))
        await gate.enter(self._name, [self._shadow.budget], claim, lasts_s=self._shadow.route.patience.total_s)

    async def _attempt(self, decision: Decision, limits: TimeLimits) -> None:
        loop = Failover(
            bench=self._bench,
            world=self._world,
            route=self._shadow.route,
            ctx=self._ctx,
            journal=self._journal,
            exchange=self._exchange,
            limits=limits,
        )
        try:
            await loop.run(decision)
        except HeadraceError as error:
            self._record(failed(type(error).__name__))
        except asyncio.CancelledError:
            self._record(cannot_say("ended by the shutdown"))
            raise
        else:
            self._judge()

    def _judge(self) -> None:
        judging, kept = self._shadow.judging, self._exchange.kept
        if judging is None:
            self._record(cannot_say("no judge is named"))
        elif kept.too_long:
            self._record(kept.not_judged)
        elif (made := self._draft()) is not None:
            read = kept.reader(self._exchange.operation, made.usage)
            self._docket.put(
                Case(judging=judging, request=self._ctx.request, read=read, length_bytes=kept.length_bytes, draft=made)
            )

    def _record(self, judgement: Judgement) -> None:
        made = self._draft()
        if made is not None:
            now_unix_s = self._bench.clock.unix_s()
            self._docket.record(replace(made, judgement=judgement, started_unix_s=now_unix_s, ended_unix_s=now_unix_s))

    def _draft(self) -> JudgedAnswer | None:
        attempts = self._journal.attempts
        return draft(self._journal, Occasion.SHADOW, 0, attempts[-1]) if attempts else None

    @property
    def _name(self) -> str:
        return self._ctx.request.arrival.id


def _against(decision: Decision) -> str:
    """What speaks against the target: a filter, its load, or a price that nobody knows, which no budget can hold."""
    if not decision.order:
        return "excluded"
    candidate = decision.order[0].candidate
    if candidate.price is None:
        return "unpriced"
    full = candidate.concurrency is not None and candidate.in_flight >= candidate.concurrency
    return "backend_busy" if full or candidate.waiting else ""
