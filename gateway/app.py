"""The composition root: settings and a policy file become a running gateway. The only place that constructs."""

import logging
from pathlib import Path

from starlette.types import ASGIApp

from gateway.annex import open_annex
from gateway.attempt.afterwards import Afterwards, open_afterwards
from gateway.attempt.sink import AnswerBounds
from gateway.attempt.trial import Bench
from gateway.clock import SystemClock
from gateway.door import Door
from gateway.endpoints import Endpoints
from gateway.errors import ConfigurationError
from gateway.fleet.settling import settle
from gateway.guarding.guardroom import Guardroom
from gateway.house import House
from gateway.judging.inquiries import Inquiries
from gateway.judging.verdict import VerdictTeller
from gateway.learning.kept_state import SECONDS_PER_DAY, open_learning, open_rows, open_tables_of
from gateway.ledger.entry_sink import EntrySink
from gateway.ledger.ledger import EntryLedger
from gateway.limits.held_bodies import HeldBodies
from gateway.metrics_key import MetricsKey
from gateway.pipeline import Pipeline, Rules
from gateway.ports import Clock, Learner, Surroundings
from gateway.process.lifespan import lifespan_of
from gateway.process.retirement import Retirement
from gateway.process.shared_turn import SharedTurn
from gateway.process.succession import those_not_in
from gateway.process.worker_line import Assignment
from gateway.rules.world import World
from gateway.scrape import Scrape, live
from gateway.settings import Settings
from gateway.site import Front, OpenPaths, Readiness, readiness_of, site_of
from gateway.stores.judged_rows import JudgedRows
from gateway.stores.responses import open_responses
from gateway.stores.shared_state import open_shared_state
from gateway.task import VerdictObserver
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.label_names import label_names
from gateway.telemetry.live_gauges import Live
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.providers import open_spans, read_sampling
from gateway.transport.client import open_connections
from gateway.wire.format import BodyLimits
from gateway.worlds import Worlds

_log = logging.getLogger(__name__)


class Gateway:
    """A gateway as one process runs it. ``asgi`` is its application; its lifespan starts and stops everything.

    ``assignment`` makes it one of several workers, which share what they can.

    Raises:
        ConfigurationError: the policy file or an ``OTEL_*`` variable is wrong; nothing has been started then.
    """

    def __init__(self, settings: Settings, *, clock: Clock | None = None, assignment: Assignment | None = None) -> None:
        self._settings = settings
        self._run_dir = Path(assignment.run_dir) if assignment is not None else None
        self._clock = clock or SystemClock()
        self._reloading = SharedTurn(self._reload)
        self._worlds = Worlds(settings)
        world = self._worlds.first()
        self._shared = open_shared_state(settings, self._clock)
        self._fleet = self._shared.fleet
        self._shared.serves(world)
        self._rows = open_rows(settings)
        self._learning = open_learning(settings, self._learners, shared=self._shared.facts, clock=self._clock)
        self._metrics = Metrics(label_names(world), self._live())
        spans = open_spans(settings.otel_variables(), behind_proxy=settings.behind_proxy)
        lines = AccessLog() if settings.access_log else None
        sinks: list[EntrySink] = [sink for sink in (self._metrics, spans, self._rows, lines) if sink is not None]
        self._ledger = EntryLedger(world.observers(), sinks)
        self._scrape = Scrape(self._metrics, self._live(), self._ledger.flush, assignment)
        self._tables = open_tables_of(settings)
        self._judged_rows = self._keep_judged()
        self._responses = open_responses(self._shared, self._run_dir, self._clock, kept_s=settings.responses_kept_s)
        self._guardroom = Guardroom(Inquiries(open_connections, settings.secret))
        self._bench = self._make_bench()
        self._afterwards = self._judges(sinks)
        self.pipeline = Pipeline(
            self._rules(world),
            bench=self._bench,
            afterwards=self._afterwards,
            ledger=self._ledger,
            limits=BodyLimits(max_depth=settings.max_depth, max_messages=settings.max_messages),
            memory=self._responses,
            bodies=HeldBodies(most_bytes=settings.max_uploads_held_bytes, longest_bytes=settings.longest_upload_bytes),
        )
        self._retirement = Retirement(self._fleet, self.pipeline.settled)
        self.asgi: ASGIApp = self._front()

    @property
    def world(self) -> World:
        """The world as it is now."""
        return self.pipeline.rules.world

    def secrets(self) -> tuple[str, ...]:
        """The values that must never be written anywhere: providers' keys, and those of the trace collector."""
        own = self._settings.scrape_key()
        return (*self._worlds.secrets(), *((own,) if own is not None else ()), *self._settings.otel_secrets())

    def readiness(self) -> Readiness:
        """Whether new work is welcome now, and what each backend says."""
        trouble, draining = self._shared.trouble(), self.pipeline.draining
        return readiness_of(self.world.backends, self._fleet, trouble=trouble, draining=draining)

    async def start(self) -> None:
        """Opens the ledger and starts every backend; they become ready in their own time."""
        if self._rows is not None:
            self._rows.start()
        self._ledger.start()
        self._shared.start()
        await self._learning.start()
        self._scrape.start()
        await self._worlds.start(self.world, self._surroundings())
        self._annex.start()

    async def settle(self, limit_s: float) -> None:
        """Waits for backends that are about to be well, so that the first request does not come too early for them.

        For ``limit_s`` at most; who is down after that, or with no end in sight, is named in the log.
        """
        await settle(
            lambda: self.world.backends,
            clock=self._clock,
            limit_s=limit_s,
            told_to_stop=lambda: self.pipeline.draining,
        )

    async def close(self) -> None:
        """Ends what still runs, closes the backends and drains the ledger."""
        await self.pipeline.drain(0)
        await self._annex.stop()
        await self._afterwards.close()
        await self._guardroom.close()
        try:
            async with self._reloading.lock:  # what a reload has just started is closed, too
                await self._retirement.done()
                for backend in self.world.backends.values():
                    await backend.close()
        finally:
            await self._ledger.close()
            if self._judged_rows is not None:
                await self._judged_rows.close()
            if self._tables is not None:
                await self._tables.close()
            await self._learning.close()
            await self._shared.close()
            await self._scrape.close()

    async def reload(self) -> None:
        """Builds the world of the policy file anew and swaps it in; a bad file keeps the old world and says so.

        Those who ask while one is under way share the next one. A gateway that drains keeps what it has.
        """
        await self._reloading.take()

    def check_bind(self) -> None:
        """Refuses to be reachable from elsewhere without keys.

        Raises:
            ConfigurationError: the address is not a loopback one and no tenant has a key.
        """
        self._settings.check_bind(locked=self.pipeline.rules.door.locked)

    async def _reload(self) -> None:
        if self.pipeline.draining:
            return
        old = self.world
        try:
            new = await self._worlds.next(old, self._surroundings(), self._learning.begin)
        except ConfigurationError as error:
            for one in error.all:
                _log.error("the policy file was not reloaded: %s", one)  # the words are the whole story
            return
        self.pipeline.rules = self._rules(new)
        self._shared.serves(new)
        self._ledger.observe_with(new.observers())
        self._metrics.rename(label_names(new))
        self._retirement.retire(those_not_in(old.backends, new.backends))
        _log.info("the policy file was reloaded")

    def _learners(self) -> tuple[Learner, ...]:
        return (*self.world.learners(), self._shared.steering)

    def _verdict_observers(self) -> tuple[VerdictObserver, ...]:
        learning = (*self.world.observers(), *((self._shared.steering,) if self._shared.steering.steers else ()))
        return tuple(one for one in learning if isinstance(one, VerdictObserver))

    def _make_bench(self) -> Bench:
        settings = self._settings
        return Bench(
            fleet=self._fleet,
            clock=self._clock,
            bounds=AnswerBounds(max_event_bytes=settings.max_event_bytes, max_answer_bytes=settings.max_answer_bytes),
            gate=self._shared.gate,
            steering=self._shared.steering,
            tasks=self._shared.tasks,
            guardroom=self._guardroom,
        )

    def _keep_judged(self) -> JudgedRows | None:
        if self._tables is None:
            return None
        return JudgedRows(self._tables, clock=self._clock, keep_s=self._settings.ledger_days * SECONDS_PER_DAY)

    def _judges(self, sinks: list[EntrySink]) -> Afterwards:
        told = (*sinks, self._judged_rows, VerdictTeller(self._verdict_observers))
        secret, note = self._settings.secret, self._metrics.count_skipped
        return open_afterwards(self._bench, connect=open_connections, secret=secret, sinks=told, note=note)

    def _rules(self, world: World) -> Rules:
        self._shared.steering.follow(world.routes)
        limit_bytes, sampling = self._settings.max_header_bytes, read_sampling(self._settings.otel_variables())
        return Rules(
            world, Door(world.tenancy.keys, max_header_bytes=limit_bytes, clock=self._clock, sampling=sampling)
        )

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            clock=self._clock,
            secret=self._settings.secret,
            connect=open_connections,
            behind_proxy=self._settings.behind_proxy,
            model_dir=self._settings.model_dir,
            run_dir=self._run_dir,
            count_drafts=self._metrics.count_drafts,
        )

    def _front(self) -> ASGIApp:
        open_paths = OpenPaths(
            door=lambda: self.pipeline.rules.door,
            readiness=self.readiness,
            metrics=self._scrape.render,
            metrics_key=MetricsKey(self._settings.scrape_key()),
        )
        inference = Endpoints(
            self.pipeline,
            max_body_bytes=self._settings.max_body_bytes,
            max_upload_bytes=self._settings.max_upload_bytes,
            body_timeout_s=self._settings.body_timeout_s,
        )
        self._annex = open_annex(self._house(open_paths))
        site = site_of(open_paths.endpoints(), lifespan=lifespan_of(self.start, self.close))
        return Front(inference, site, self._annex, open_paths.door)

    def _house(self, open_paths: OpenPaths) -> House:
        return House(
            settings=self._settings,
            pipeline=self.pipeline,
            bench=self._bench,
            ledger=self._ledger,
            rows=self._rows,
            tables=self._tables,
            metrics=self._metrics,
            responses=self._responses,
            open_paths=open_paths.endpoints(),
            observers=self._verdict_observers,
            success=self._shared.steering.report,
            started_unix_s=int(self._clock.unix_s()),
        )

    def _live(self) -> Live:
        return live(
            lambda: self.pipeline,
            fleet=self._fleet,
            ledger=lambda: self._ledger,
            rows=self._rows,
            shared=self._shared,
        )
