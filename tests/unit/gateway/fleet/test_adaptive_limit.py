"""A concurrency limit that finds a backend's knee, and follows it when it moves."""

import heapq
import random
from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest

from gateway.errors import UpstreamFailed, UpstreamRateLimited
from gateway.facts import AdaptiveBounds
from gateway.fleet.adaptive_limit import AdaptiveLimit
from gateway.fleet.fleet import Fleet
from gateway.fleet.flight import Flight
from gateway.stores.memory import MemoryShared

SERVICE_S = 4.0
READS_TOKENS_PER_S = 5000.0


class Engine:
    """So many places; who finds none waits in line. Reads at a speed of its own, with noise in everything.

    Requests keep coming: as many are under way as ``limit`` says.
    """

    def __init__(self, limit: AdaptiveLimit, places: int, *, seed: int, slowness: float = 1.0) -> None:
        self.limit, self.places, self.slowness = limit, places, slowness
        self.now_s = 0.0
        self.seen: list[int] = []
        self._dice = random.Random(seed)  # noqa: S311  # a repeatable simulation, no secret
        self._events: list[tuple[float, int, str, Any]] = []
        self._number = self._busy = self._under_way = 0
        self._line: list[tuple[float, int, int, int]] = []

    def run(self, seconds: float) -> list[int]:
        """The limits that there were meanwhile, one for each request that ended."""
        until_s, self.seen = self.now_s + seconds, []
        while self.now_s < until_s:
            while self._under_way < self.limit.now:
                self._send()
            self.now_s, _, kind, job = heapq.heappop(self._events)
            if kind == "token":
                dispatched_s, tokens, in_flight = job
                self.limit.succeeded(
                    seconds=self.now_s - dispatched_s,
                    tokens=tokens,
                    in_flight=in_flight,
                    dispatched_s=dispatched_s,
                    now_s=self.now_s,
                )
            else:
                self._busy -= 1
                self._under_way -= 1
                self.seen.append(self.limit.now)
                if self._line:
                    self._start(*self._line.pop(0))
        return self.seen

    def _send(self) -> None:
        self._under_way += 1
        tokens = int(self._dice.lognormvariate(6.5, 1.0))
        cached = self._dice.random() < 0.3
        job = (self.now_s, tokens // 10 if cached else tokens, self._under_way, self._number)
        if self._busy < self.places:
            self._start(*job)
        else:
            self._line.append(job)

    def _start(self, dispatched_s: float, tokens: int, in_flight: int, number: int) -> None:
        self._busy += 1
        self._number += 1
        noise = self._dice.lognormvariate(0.0, 0.4)
        first_s = (0.05 + tokens / READS_TOKENS_PER_S) * noise * self.slowness
        heapq.heappush(self._events, (self.now_s + first_s, self._number, "token", (dispatched_s, tokens, in_flight)))
        ends_s = self.now_s + first_s + self._dice.expovariate(1 / SERVICE_S) + 0.1
        heapq.heappush(self._events, (ends_s, self._number, "end", number))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("places", [4, 16, 64])
def test_it_finds_the_knee(places: int, seed: int) -> None:
    """Within a fifth on average once it has settled, and at most half as much again in any moment."""
    engine = Engine(AdaptiveLimit(AdaptiveBounds()), places, seed=seed)
    engine.run(600)
    seen = engine.run(1200)
    assert pytest.approx(places, rel=0.2, abs=1) == fmean(seen)
    assert places / 2 <= min(seen) <= max(seen) <= places * 1.5 + 1


@pytest.mark.parametrize(("before", "after"), [(16, 32), (32, 12)])
def test_it_follows_the_knee(before: int, after: int) -> None:
    """Up and down, as an engine is given more or less memory."""
    engine = Engine(AdaptiveLimit(AdaptiveBounds()), before, seed=1)
    engine.run(900)
    engine.places = after
    engine.run(600)
    assert pytest.approx(after, rel=0.2) == fmean(engine.run(900))


def test_a_backend_that_has_become_slower_is_not_taken_for_a_full_one() -> None:
    """At three times the time for everything, the knee is where it was."""
    engine = Engine(AdaptiveLimit(AdaptiveBounds()), 16, seed=2)
    engine.run(900)
    engine.slowness = 3.0
    engine.run(2400)
    assert pytest.approx(16, rel=0.25) == fmean(engine.run(1200))


def test_without_a_knee_it_stays_within_its_bounds() -> None:
    """Noise alone neither shrinks it for good nor makes it grow beyond what is allowed."""
    engine = Engine(AdaptiveLimit(AdaptiveBounds(min=2, max=40)), 10_000, seed=3)
    engine.run(600)
    assert {40} == set(engine.run(600))


def test_what_is_not_used_does_not_grow() -> None:
    """A limit that nobody reaches says nothing of what would happen there."""
    limit = AdaptiveLimit(AdaptiveBounds())
    for number in range(500):
        limit.succeeded(seconds=0.1, tokens=100, in_flight=1, dispatched_s=number, now_s=number + 0.1)
    assert 8 == limit.now


def test_a_drop_cuts_at_once_and_once_for_all_that_were_under_way() -> None:
    """They were dropped for one and the same reason."""
    limit = AdaptiveLimit(AdaptiveBounds(min=3))
    for _ in range(5):
        limit.dropped(dispatched_s=1.0, now_s=2.0)
    assert 6 == limit.now
    for number in range(10):
        limit.dropped(dispatched_s=3.0 + number, now_s=3.0 + number)
    assert 3 == limit.now


ADAPTIVE = """
    backends: {a: {use: fake, models: [small], concurrency: {adaptive: {min: 2, max: 12}}}}
    routes: {r: {models: ["*"], targets: [a/small]}}
"""


def test_the_fleet_tells_it_of_successes_and_drops_and_ignores_all_else(
    make_world: Callable[..., Any], make_context: Any, clock: Any
) -> None:
    """And shows it as the candidate's concurrency, and in the room."""
    world, ctx = make_world(ADAPTIVE), make_context()
    fleet = Fleet(clock=clock, shared=MemoryShared(clock))
    route, backend = world.routes[0], world.backends["a"]

    def fly() -> Flight:
        (candidate,) = fleet.snapshot(route, ctx, world.backends)
        return Flight(fleet, ctx, candidate, backend.facts())

    def places() -> tuple[int | None, int | None]:
        return fleet.snapshot(route, ctx, world.backends)[0].concurrency, fleet.rooms.of(route, world.backends).free()

    assert (8, 8) == places()
    ignored = fly()
    clock.now += 0.1
    ignored.landed(usage=None, decode_s=None, error=UpstreamFailed("500"), now_s=clock.now)
    assert (8, 8) == places()
    dropped = fly()
    clock.now += 0.1
    dropped.landed(usage=None, decode_s=None, error=UpstreamRateLimited("429", retry_after_s=0.1), now_s=clock.now)
    clock.now += 60
    assert 6 == places()[0]
    for _ in range(12):  # as many as there may be, so that the limit is in use
        flights = [fly() for _ in range(places()[0] or 0)]
        clock.now += 0.5
        for flight in flights:
            flight.first_token(clock.now)
        for flight in flights:
            flight.landed(usage=None, decode_s=None, error=None, now_s=clock.now)
    assert (12, 12) == places()
