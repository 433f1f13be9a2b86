"""The whole life of a request, top to bottom: ``Pipeline.handle``."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from gateway.attempt.admitted import Admitted
from gateway.attempt.afterwards import Afterwards
from gateway.attempt.cached import Cached
from gateway.attempt.failover import Failover
from gateway.attempt.guarded import Guarded
from gateway.attempt.hedge import Hedger
from gateway.attempt.last_words import tell
from gateway.attempt.spillover import Spillover
from gateway.attempt.time_limit import TimeLimits
from gateway.attempt.trial import Bench
from gateway.decide import decide
from gateway.door import Door, Knock
from gateway.errors import HeadraceError, ShuttingDown
from gateway.exchange import Exchange
from gateway.fault import place_of
from gateway.ledger.ends import CLIENT_GONE, outcome_of
from gateway.ledger.journal import Journal
from gateway.limits.held_bodies import HeldBodies
from gateway.limits.limit import Limit
from gateway.limits.stay import Stay
from gateway.ports import Ledger
from gateway.rules.route import Hedge, Route
from gateway.rules.world import World
from gateway.stores.responses import ResponseMemory
from gateway.task_hints import with_task
from gateway.types import ChatRequest, Context, Exclusion, Operation
from gateway.wire.format import BodyLimits
from gateway.wire.formats import FORMATS
from gateway.wire.passages import UPLOADS

_log = logging.getLogger(__name__)

_DRAIN_RETRY_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class Rules:
    """What a reload of the policy file replaces, in one assignment: the world and its door."""

    world: World
    door: Door


class Pipeline:
    """Serves exchanges under the present rules. ``running`` counts the requests under way."""

    def __init__(
        self,
        rules: Rules,
        *,
        bench: Bench,
        afterwards: Afterwards,
        ledger: Ledger,
        limits: BodyLimits,
        memory: ResponseMemory,
        bodies: HeldBodies,
    ) -> None:
        self.rules = rules
        self.draining = False
        self._bench = bench
        self._afterwards = afterwards
        self._ledger = ledger
        self._body_limits = limits
        self._memory = memory
        self._bodies = bodies
        self._time_limits: TimeLimits | None = None
        self._hedgers: dict[str, tuple[Hedge, Hedger]] = {}
        self._tasks: set[asyncio.Task[object]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def running(self) -> int:
        """Requests under way."""
        return len(self._tasks)

    async def handle(self, exchange: Exchange, knock: Callable[[Door], Knock] | None = None) -> None:
        """Serves one request: arrive, read, match, forecast, admit, decide, attempt, record.

        ``knock`` says who is there where the exchange does not: of what was put off, the key was shown before.

        Every path ends in exactly one ledger entry. What goes wrong is told to the client in its own format, before
        the answer or inside it; only a cancellation that is neither a hang-up nor a shutdown goes on upwards.
        """
        rules = self.rules
        arrival, identity, unwelcome = rules.door.arrive(exchange) if knock is None else knock(rules.door)
        journal = Journal(arrival)
        task = self._begun()
        try:
            request = journal.request = await self._read(exchange, journal, unwelcome)
            route = rules.world.route_for(identity, request.model)
            journal.route = route.name
            journal.forecast = route.forecast(request)
            if request.arrival.task is not None and self._bench.tasks is not None:
                route = await self._bench.tasks.admit(rules.world, identity, route, journal)
            limits = identity.limits + rules.world.tenancy.of_model(request.model)
            priced_only = any(limit.priced_only for limit in limits) if limits else False
            ctx = route.context(request, journal.forecast, priced_only=priced_only)
            async with self._within_limits(limits, rules.world, route, ctx, journal):
                guards = route.guards if identity.guards is None else identity.guards.and_then(route.guards)
                if guards is None:
                    await self._answer(limits, rules.world, route, ctx, journal, exchange)
                else:
                    answer = partial(self._answer, limits, rules.world, route)
                    understand = partial(self._understood, exchange.operation)
                    await Guarded(self._bench, guards, route, journal, exchange, understand, answer).run(ctx)
        except asyncio.CancelledError:
            await self._cancelled(exchange, journal)
        except HeadraceError as error:
            await self._tell(exchange, journal, error)
        except Exception as error:  # noqa: BLE001  # a bug of ours or of a plugin is an answer and an entry too
            # The class and the place, never the text: it may quote what a client wrote.
            _log.error("%s: %s in %s", arrival.id, type(error).__name__, place_of(error))
            await self._tell(exchange, journal, HeadraceError("something broke on our side"))
        finally:
            self._ended(task, journal)

    async def settled(self) -> None:
        """Returns when all requests that run now have ended, and their copies, whatever comes after them."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))
        await self._afterwards.shadows.settled()

    async def drain(self, limit_s: float) -> None:
        """Takes nothing new, lets running answers finish for ``limit_s``, then ends the rest with an error."""
        self.draining = True
        try:
            async with asyncio.timeout(limit_s):
                await self._idle.wait()
        except TimeoutError:
            for task in tuple(self._tasks):
                task.cancel()
            await self._idle.wait()

    async def _read(self, exchange: Exchange, journal: Journal, unwelcome: HeadraceError | None) -> ChatRequest:
        if unwelcome is not None:
            raise unwelcome
        if self.draining:
            raise ShuttingDown("this gateway is shutting down", retry_after_s=_DRAIN_RETRY_AFTER_S)
        uploads = exchange.operation in UPLOADS
        body = await (self._bodies.body(journal.arrival.id, exchange) if uploads else exchange.body())
        return self._understood(exchange.operation, journal, body)

    def _understood(self, operation: Operation, journal: Journal, body: bytes) -> ChatRequest:
        request = with_task(FORMATS[operation].read(journal.arrival, body, self._body_limits))
        journal.arrival = request.arrival
        if operation is Operation.RESPONSE:
            return self._memory.remembering(request, self._body_limits)
        return request

    def _within_limits(
        self, limits: Sequence[Limit], world: World, route: Route, ctx: Context, journal: Journal
    ) -> AbstractAsyncContextManager[None]:
        if self._bench.gate is None or not limits:
            return nullcontext()
        return Stay(
            self._bench.gate,
            limits,
            ctx,
            journal,
            candidates=lambda: self._bench.fleet.snapshot(route, ctx, world.backends),
            lasts_s=route.longest_s,
        )

    async def _answer(
        self, limits: Sequence[Limit], world: World, route: Route, ctx: Context, journal: Journal, exchange: Exchange
    ) -> None:
        """Answers it out of the route's cache, or serves it."""
        if route.cache is None:
            await self._admit(limits, world, route, ctx, journal, exchange)
            return
        serve = partial(self._admit, limits, world, route, ctx, journal)
        await Cached(route.cache, world, route, ctx, journal, exchange, self._bench.clock, serve).run()

    async def _admit(
        self, limits: Sequence[Limit], world: World, route: Route, ctx: Context, journal: Journal, exchange: Exchange
    ) -> None:
        """Serves it when there is a place for it."""
        room = self._bench.fleet.rooms.of(route, world.backends)
        if route.spill is None:
            async with Admitted(route.admitter.admit(ctx, room), journal):
                await self._serve(world, ctx, journal, exchange, route)
            return
        await Spillover(
            bench=self._bench,
            world=world,
            route=route,
            spill=route.spill,
            ctx=ctx,
            journal=journal,
            exchange=exchange,
            own_limits=limits,
            serve=partial(self._serve, world, ctx, journal, exchange),
        ).run(room)

    async def _serve(
        self,
        world: World,
        ctx: Context,
        journal: Journal,
        exchange: Exchange,
        route: Route,
        besides: Sequence[Exclusion] = (),
    ) -> None:
        """Decides on what is true now, and attempts; ``besides`` are candidates that are out before."""
        candidates = self._bench.fleet.snapshot(route, ctx, world.backends)
        if route.steer is None or self._bench.steering is None:
            decision = journal.decision = decide(route, ctx, candidates)
        else:
            decision = journal.decision = await self._bench.steering.decide(route, ctx, candidates)
        if besides:
            decision = journal.decision = replace(decision, excluded=(*decision.excluded, *besides))
        journal.chunks = self._bench.fleet.chains.chain(ctx.request)[:2]
        loop = Failover(
            bench=self._bench,
            world=world,
            route=route,
            ctx=ctx,
            journal=journal,
            exchange=exchange,
            limits=self._limits(),
            hedger=self._hedger(route),
            made=len(journal.attempts),
        )
        await (self._afterwards.attempt(loop, decision) if route.watched else loop.run(decision))

    def _hedger(self, route: Route) -> Hedger | None:
        """The route's, kept for as long as the route stays as it is: what it may spend is earned over time."""
        if route.hedge is None:
            return None
        known = self._hedgers.get(route.name)
        if known is None or known[0] != route.hedge:
            known = self._hedgers[route.name] = (route.hedge, Hedger(route.hedge))
        return known[1]

    async def _cancelled(self, exchange: Exchange, journal: Journal) -> None:
        """A hang-up needs no answer; the end of a drain has words of its own to say."""
        journal.outcome = outcome_of(HeadraceError("cancelled"))
        if not self._is_the_end(exchange, journal):
            raise asyncio.CancelledError
        if not exchange.gone:
            await self._tell(exchange, journal, ShuttingDown("this gateway shut down before the answer's end"))

    async def _tell(self, exchange: Exchange, journal: Journal, error: HeadraceError) -> None:
        try:
            await tell(exchange, journal, error)
        except asyncio.CancelledError:
            if not self._is_the_end(exchange, journal):
                raise

    def _is_the_end(self, exchange: Exchange, journal: Journal) -> bool:
        """Whether a cancellation means that the client hung up or that a drain is over, and then goes no further."""
        if exchange.gone:
            journal.outcome = CLIENT_GONE
        task = asyncio.current_task()
        if task is not None and (exchange.gone or self.draining):
            task.uncancel()
        return exchange.gone or self.draining

    def _begun(self) -> asyncio.Task[object]:
        task = asyncio.current_task(self._limits().loop)
        if task is None:
            raise RuntimeError("an exchange is served by a task, so that a hang-up can cancel it")
        self._tasks.add(task)
        self._idle.clear()
        return task

    def _limits(self) -> TimeLimits:
        """Those of the one loop that all of it runs on, which is there with the first request."""
        if self._time_limits is None:
            self._time_limits = TimeLimits(asyncio.get_running_loop())
        return self._time_limits

    def _ended(self, task: asyncio.Task[object], journal: Journal) -> None:
        now_s = self._bench.clock.now_s()
        try:
            self._ledger.record(journal.close(now_s))
        finally:
            if journal.settle is not None:
                journal.settle(journal, now_s)
            if self._bodies.held:
                self._bodies.leave(journal.arrival.id)
            self._tasks.discard(task)
            if not self._tasks:
                self._idle.set()
