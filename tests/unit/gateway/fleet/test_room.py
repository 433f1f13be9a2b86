"""Places are those of the backends, whoever takes them; who waits for one is called."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.errors import Overloaded, UpstreamFailed
from gateway.fleet.fleet import Fleet
from gateway.fleet.flight import Flight
from gateway.fleet.room import BEAT_S, RouteRoom
from gateway.rules.world import World
from gateway.stores.memory import MemoryShared
from gateway.types import Context
from tests.virtual_time import LoopClock, run_virtually

SHARED = """
    backends:
      a: {use: fake, models: [small], concurrency: 2}
      b: {use: fake, models: [small], concurrency: 1}
      c: {use: fake, models: [small], concurrency: 1}
    routes:
      left: {models: [left], targets: [a/small, b/small], admit: {use: fair_queue, limit: null, wait_s: 1000}}
      right: {models: [right], targets: [b/small, c/small], admit: {use: fair_queue, limit: null, wait_s: 1000}}
"""


class Hall:
    """A fleet and the rooms of its routes."""

    def __init__(self, world: World, ctx: Context, clock: Any) -> None:
        self.world = world
        self.fleet = Fleet(clock=clock, shared=MemoryShared(clock))
        self.routes = {route.name: route for route in world.routes}
        self._ctx = ctx

    def room(self, name: str) -> RouteRoom:
        """The room of a route."""
        return self.fleet.rooms.of(self.routes[name], self.world.backends)

    def ctx(self, number: int, model: str = "small") -> Context:
        """One request."""
        request = self._ctx.request
        arrival = replace(request.arrival, id=f"r{number}", tenant=f"t{number % 3}")
        return replace(self._ctx, request=replace(request, arrival=arrival, model=model, raw={"messages": b"[]"}))

    def fly(self, route: str, backend: str, number: int) -> Flight:
        """Dispatches a request."""
        ctx = self.ctx(number)
        candidates = self.fleet.snapshot(self.routes[route], ctx, self.world.backends)
        candidate = next(one for one in candidates if one.backend == backend)
        return Flight(self.fleet, ctx, candidate, self.world.backends[backend].facts())

    def land(self, flight: Flight, error: Any = None) -> None:
        """Ends an attempt."""
        flight.landed(usage=None, decode_s=None, error=error, now_s=self.fleet.clock.now_s())


@pytest.fixture
def make_hall(make_world: Callable[..., World], make_context: Any) -> Callable[..., Hall]:
    """Makes one over a policy file."""
    return lambda clock, text=SHARED: Hall(make_world(text), make_context(), clock)


def test_routes_that_share_a_backend_share_its_places(make_hall: Callable[..., Hall], clock: Any) -> None:
    """Whoever took them; an attempt that lands gives one back."""
    hall = make_hall(clock)
    assert (3, 2) == (hall.room("left").free(), hall.room("right").free())
    flight = hall.fly("right", "b", 1)
    assert (2, 1) == (hall.room("left").free(), hall.room("right").free())
    hall.land(flight)
    assert (3, 2) == (hall.room("left").free(), hall.room("right").free())


def test_a_place_is_held_from_the_admission_to_the_dispatch(make_hall: Callable[..., Hall], clock: Any) -> None:
    """Then it is the attempt's; released twice or after that is nothing."""
    hall = make_hall(clock)
    room = hall.room("left")
    room.hold("r1")
    assert (2, 1) == (room.free(), hall.room("right").free())
    flight = hall.fly("left", "a", 1)
    room.release("r1")
    assert (2, 2) == (room.free(), hall.room("right").free())
    hall.land(flight)
    room.hold("r2")
    room.release("r2")
    room.release("r2")
    assert (3, 2) == (room.free(), hall.room("right").free())


def test_who_takes_any_number_has_room_without_end(make_hall: Callable[..., Hall], clock: Any) -> None:
    """Nobody waits for it then."""
    text = SHARED.replace("c: {use: fake, models: [small], concurrency: 1}", "c: {use: fake, models: [small]}")
    assert make_hall(clock, text).room("right").free() is None


def test_a_target_that_drains_has_no_room(make_hall: Callable[..., Hall], clock: Any) -> None:
    """It gets nothing new."""
    hall = make_hall(clock, SHARED.replace("[a/small, b/small]", "[{to: a/small, drain: true}, b/small]"))
    assert 1 == hall.room("left").free()


def test_a_backend_that_rests_has_no_room_and_one_place_when_it_is_tried(
    make_hall: Callable[..., Hall], clock: Any
) -> None:
    """After failures one attempt at a time finds out whether it is well."""
    hall = make_hall(clock)
    for number in range(3):
        hall.land(hall.fly("left", "a", number), UpstreamFailed("500"))
        clock.now += 0.1
    assert 1 == hall.room("left").free()
    clock.now += 60
    assert 2 == hall.room("left").free()
    flight = hall.fly("left", "a", 9)
    assert 1 == hall.room("left").free()
    hall.land(flight)
    assert 3 == hall.room("left").free()


def test_a_short_rest_of_all_is_waited_for_and_a_long_one_is_not(make_hall: Callable[..., Hall], clock: Any) -> None:
    """Where nobody comes back soon, deciding says no at once."""
    hall = make_hall(clock)
    for backend in ("b", "c"):
        hall.land(hall.fly("right", backend, 1), UpstreamFailed("500", retry_after_s=4))
    assert 0 == hall.room("right").free()
    for backend in ("b", "c"):
        hall.land(hall.fly("right", backend, 2), UpstreamFailed("500", retry_after_s=90))
    assert hall.room("right").free() is None


async def test_who_waits_is_called_when_an_attempt_lands(make_hall: Callable[..., Hall], clock: Any) -> None:
    """Once for each time it asks, and one that fails keeps nobody else waiting."""
    hall = make_hall(clock)
    called: list[str] = []
    flight = hall.fly("left", "b", 1)
    hall.room("left").when_free(lambda: called.append("left"))
    hall.room("right").when_free(lambda: called.append("right"))
    assert [] == called
    hall.land(flight)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert ["left", "right"] == called
    hall.land(hall.fly("left", "b", 2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert ["left", "right"] == called


def test_who_waits_is_called_for_what_nobody_tells_us(make_hall: Callable[..., Hall]) -> None:
    """A rest that is over makes no sound."""

    async def story() -> float:
        hall = make_hall(LoopClock())
        for backend in ("b", "c"):
            hall.land(hall.fly("right", backend, 1), UpstreamFailed("500", retry_after_s=2))
        async with hall.routes["right"].admitter.admit(hall.ctx(2), hall.room("right")):
            return asyncio.get_running_loop().time()

    assert 2.0 <= run_virtually(story()) <= 2.0 + 2 * BEAT_S


class Crowd:
    """Requests of two routes over three backends: they come, wait, hang up, fly and fail as the dice fall."""

    def __init__(self, hall: Hall, dice: random.Random) -> None:
        self.hall = hall
        self.dice = dice
        self.ended: list[str] = []
        self.waiting = {"left": 0, "right": 0}

    async def request(self, name: str, number: int) -> None:
        """One of them."""
        hall, route = self.hall, self.hall.routes[name]
        ctx = hall.ctx(number, name)
        self.waiting[name] += 1
        entered = False
        try:
            async with route.admitter.admit(ctx, hall.room(name)):
                self.waiting[name] -= 1
                entered = True
                if self.dice.random() < 0.1:
                    return  # it never gets as far as a backend
                await asyncio.sleep(self.dice.choice([0.0, 0.0, 0.3]))
                candidates = [
                    one for one in hall.fleet.snapshot(route, ctx, hall.world.backends)
                    if one.down is None and one.in_flight < (one.concurrency or 0)
                ]  # fmt: skip
                if not candidates:
                    return
                candidate = self.dice.choice(candidates)
                flight = Flight(hall.fleet, ctx, candidate, hall.world.backends[candidate.backend].facts())
                error = None
                try:
                    await asyncio.sleep(self.dice.expovariate(1))
                    if self.dice.random() < 0.05:
                        error = UpstreamFailed("500", retry_after_s=1)
                finally:
                    hall.land(flight, error)
        except Overloaded:
            pass
        finally:
            self.waiting[name] -= not entered
            self.ended.append(name)

    def lost_wake_up(self) -> str:
        """The route of which somebody waits though there is room; empty where nobody does."""
        for name, waiting in self.waiting.items():
            free = self.hall.room(name).free()
            if waiting and (free is None or free > 0):
                return name
        return ""


@pytest.mark.parametrize("seed", range(12))
def test_no_wake_up_is_lost_and_no_backend_gets_more_than_it_takes(seed: int, make_hall: Callable[..., Hall]) -> None:
    """Whatever comes, hangs up, fails, rests and reloads: whoever waits is let in two beats after there is room."""
    dice = random.Random(seed)  # noqa: S311  # a repeatable shuffle, no secret

    async def story() -> None:
        hall = make_hall(LoopClock())
        crowd = Crowd(hall, dice)
        tasks: list[asyncio.Task[None]] = []
        for number in range(150):
            tasks.append(asyncio.create_task(crowd.request(dice.choice(["left", "right"]), number)))
            if dice.random() < 0.15:
                dice.choice(tasks).cancel()
            if dice.random() < 0.03:  # a reload: other backends under the same names
                hall.world = World(
                    backends=dict(hall.world.backends), routes=hall.world.routes, tenancy=hall.world.tenancy
                )
            await asyncio.sleep(dice.choice([0.0, 0.0, 0.1, 1.0]))
            assert all(hall.fleet.in_flight[name] <= most for name, most in (("a", 2), ("b", 1), ("c", 1)))
            if number % 10 == 0:
                await asyncio.sleep(2.5 * BEAT_S)
                if crowd.lost_wake_up():
                    await asyncio.sleep(2.5 * BEAT_S)  # room may have come a moment ago
                    assert "" == crowd.lost_wake_up()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert {"left": 0, "right": 0} == crowd.waiting
        assert not any(hall.fleet.in_flight.values())
        assert ({}, {}) == (hall.fleet.rooms._held, dict(hall.fleet.rooms._holding))
        admitters = [route.admitter for route in hall.world.routes]
        assert [(0, 0), (0, 0)] == [(one.in_flight, one.waiting) for one in admitters]

    run_virtually(story())
