"""The whole life of a request, top to bottom: ``Pipeline.handle``."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gateway.attempt.afterwards import Afterwards
from gateway.attempt.last_words import tell
from gateway.attempt.serving import Serving
from gateway.attempt.trial import Bench
from gateway.door import Door, Knock
from gateway.errors import HeadraceError, ShuttingDown
from gateway.exchange import Exchange
from gateway.fault import place_of
from gateway.ledger.ends import CLIENT_GONE, outcome_of
from gateway.ledger.journal import Journal
from gateway.limits.gate import Gate
from gateway.limits.held_bodies import HeldBodies
from gateway.limits.limit import Limit
from gateway.limits.stay import Stay
from gateway.ports import Ledger
from gateway.rules.guards import Guards
from gateway.rules.route import Route
from gateway.rules.world import World
from gateway.stores.responses import ResponseMemory
from gateway.task_hints import with_task
from gateway.types import ChatRequest, Context, Operation
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
        self._serving = Serving(bench, afterwards)
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
        came = rules.door.arrive(exchange) if knock is None else knock(rules.door)
        arrival, identity = came.arrival, came.identity
        journal = Journal(arrival)
        task = self._begun()
        try:
            body = await self._body(exchange, journal, came.refusal)
            request = journal.request = self._understood(exchange.operation, journal, body)
            route = rules.world.route_for(identity, request.model)
            journal.route = route.name
            journal.forecast = route.forecast(request)
            if request.arrival.task is not None and self._bench.tasks is not None:
                route = await self._bench.tasks.admit(rules.world, identity, route, journal)
            limits = identity.limits + rules.world.tenancy.of_model(request.model)
            priced_only = any(limit.priced_only for limit in limits) if limits else False
            ctx = route.context(request, journal.forecast, priced_only=priced_only)
            guards = route.guards if identity.guards is None else identity.guards.and_then(route.guards)
            if limits and self._bench.gate is not None:
                async with self._stay(self._bench.gate, limits, rules.world, route, ctx, journal):
                    await self._serve(guards, limits, rules.world, route, ctx, journal, exchange)
            else:
                await self._serve(guards, limits, rules.world, route, ctx, journal, exchange)
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

    def _body(
        self, exchange: Exchange, journal: Journal, unwelcome: HeadraceError | None
    ) -> Coroutine[Any, Any, bytes]:
        if unwelcome is not None:
            raise unwelcome
        if self.draining:
            raise ShuttingDown("this gateway is shutting down", retry_after_s=_DRAIN_RETRY_AFTER_S)
        uploads = exchange.operation in UPLOADS
        return self._bodies.body(journal.arrival.id, exchange) if uploads else exchange.body()

    def _understood(self, operation: Operation, journal: Journal, body: bytes) -> ChatRequest:
        request = with_task(FORMATS[operation].read(journal.arrival, body, self._body_limits))
        journal.arrival = request.arrival
        if operation is Operation.RESPONSE:
            return self._memory.remembering(request, self._body_limits)
        return request

    def _stay(
        self, gate: Gate, limits: Sequence[Limit], world: World, route: Route, ctx: Context, journal: Journal
    ) -> Stay:
        return Stay(
            gate,
            limits,
            ctx,
            journal,
            candidates=lambda: self._bench.fleet.snapshot(route, ctx, world.backends),
            lasts_s=route.longest_s,
        )

    def _serve(
        self,
        guards: Guards | None,
        limits: Sequence[Limit],
        world: World,
        route: Route,
        ctx: Context,
        journal: Journal,
        exchange: Exchange,
    ) -> Coroutine[Any, Any, None]:
        """Serves it, before its guards where there are any."""
        if guards is None:
            return self._serving.serve(limits, world, route, ctx, journal, exchange)
        from gateway.attempt.guarded import Guarded  # noqa: PLC0415  # loaded by who read of guards, see `Worlds`

        serve = partial(self._serving.serve, limits, world, route)
        understand = partial(self._understood, exchange.operation)
        return Guarded(self._bench, guards, route, journal, exchange, understand, serve).run(ctx)

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
        task = asyncio.current_task(self._serving.time_limits().loop)
        if task is None:
            raise RuntimeError("an exchange is served by a task, so that a hang-up can cancel it")
        if not self._tasks:
            self._idle.clear()
        self._tasks.add(task)
        return task

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
