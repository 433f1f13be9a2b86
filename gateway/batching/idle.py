"""Idle capacity: where a batch's line may begin, and who gives its place back when somebody else wants one.

A line begins where nobody waits and there is a free place; of the places that others leave, lines take a share. When
somebody has to wait all the same, the line that began last gives its place up: it is sent again later, and what it took
is on the ledger like everything that is left before its end.
"""

import asyncio
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

from gateway.clock import until_set
from gateway.errors import ModelNotFound
from gateway.fleet.room import BEAT_S, Rooms
from gateway.pipeline import Pipeline
from gateway.ports import Clock
from gateway.rules.route import Route

_FIRST_REST_S = 1.0
_LONGEST_REST_S = 32.0


class Place:
    """What a line, by its request's id, takes while it is in flight; ``given_back`` tells that it was taken from it."""

    __slots__ = ("given_back", "names", "request", "route", "task")

    def __init__(self, request: str, route: str, names: frozenset[str]) -> None:
        self.request = request
        self.route = route
        self.names = names
        self.task: asyncio.Task[None] | None = None
        self.given_back = False


class Idle:
    """The idle capacity of a process.

    Args:
        pipeline: whose routes they are.
        rooms: the room behind them.
        clock: what a line waits by.
        share: of the places that nobody else takes, from 0 to 1.
        lines_at_once: so many are in flight at most.
    """

    def __init__(self, pipeline: Pipeline, rooms: Rooms, *, clock: Clock, share: float, lines_at_once: int) -> None:
        self._pipeline = pipeline
        self._rooms = rooms
        self._clock = clock
        self._share = share
        self._lines_at_once = lines_at_once
        self._places: list[Place] = []
        self._free = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._rests: dict[str, tuple[float, float]] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def in_flight(self) -> int:
        """Lines in flight."""
        return len(self._places)

    async def place(self, model: str, request: str) -> Place:
        """Returns when a line for ``model`` may begin as that request; ``leave`` gives the place back."""
        turn = self._turns.setdefault(model, asyncio.Lock())
        async with turn:  # of those who want the same one looks, and the others wait behind it
            while (place := self._open(model, request)) is None:
                await self._beat()
            self._places.append(place)
        self._rooms.expected.add(request)
        self._rooms.waits = self.give_way
        if self._watch is None or self._watch.done():
            self._watch = asyncio.get_running_loop().create_task(self._look_out(), name="headrace-idle")
        return place

    def leave(self, place: Place) -> None:
        """The place is free; a line that kept it to its end has shown that there is room."""
        self._places.remove(place)
        if not self._places:
            self._rooms.waits = None
        self._rooms.expected.discard(place.request)
        if not place.given_back:
            self._rests.pop(place.route, None)
        self._free.set()

    def give_way(self) -> None:
        """Takes places from as many lines as there are others waiting for one, the last that began first."""
        for route in self._pipeline.rules.world.routes if self._places else ():
            waiting = _urgent(route.admitter)
            beside = [place for place in self._places if self._beside(place, route)] if waiting else []
            waiting -= sum(place.given_back for place in beside)  # their places are on the way
            for place in reversed(beside):
                if waiting > 0 and place.task is not None and not place.given_back:
                    waiting -= 1
                    self._take_back(place, place.task)

    def _take_back(self, place: Place, task: asyncio.Task[None]) -> None:
        """Ends the line, and leaves its route alone for a while: the longer, the more often that has happened."""
        place.given_back = True
        rest_s = min(self._rests.get(place.route, (0.0, _FIRST_REST_S / 2))[1] * 2, _LONGEST_REST_S)
        self._rests[place.route] = (self._clock.now_s() + rest_s, rest_s)
        task.cancel()

    async def close(self) -> None:
        """Gives back what it holds; idempotent."""
        watch, self._watch = self._watch, None
        self._rooms.waits = None
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])

    def _open(self, model: str, request: str) -> Place | None:
        if self._pipeline.draining or len(self._places) >= self._lines_at_once:
            return None
        world = self._pipeline.rules.world
        try:
            route = world.match(model)
        except ModelNotFound:
            return Place(request, "", frozenset())  # it is refused at once, and takes none
        names = frozenset(target.backend for target in route.targets)
        if self._rests.get(route.name, (0.0, 0.0))[0] > self._clock.now_s() or any(
            _urgent(other.admitter) for other in self._neighbours(names)
        ):
            return None
        beside = [place for place in self._places if not names.isdisjoint(place.names)]
        coming = sum(place.request in self._rooms.expected for place in beside)
        bounds = [self._rooms.of(route, world.backends).free(), _left(route.admitter)]
        free = min((bound - coming for bound in bounds if bound is not None), default=None)
        if free is None or (free > 0 and (not beside or len(beside) + 1 <= self._share * (len(beside) + free))):
            return Place(request, route.name, names)
        return None

    def _neighbours(self, names: frozenset[str]) -> Iterator[Route]:
        for route in self._pipeline.rules.world.routes:
            if any(target.backend in names for target in route.targets):
                yield route

    def _beside(self, place: Place, route: Route) -> bool:
        return place.route == route.name or any(target.backend in place.names for target in route.targets)

    async def _beat(self) -> None:
        """Until a line has left, or a moment has gone by: others come and go without a word."""
        self._free.clear()
        await until_set(self._free, self._clock, at_most_s=BEAT_S)

    async def _look_out(self) -> None:
        """Not everybody who has to wait waits for a backend: an admitter has bounds of its own."""
        while self._places:
            await self._clock.sleep(BEAT_S)
            self.give_way()


def _urgent(admitter: Any) -> int:
    """How many wait there who are no batch; where an admitter does not tell them apart, all."""
    waiting: int = getattr(admitter, "waiting_before_batches", None) or 0
    if not hasattr(admitter, "waiting_before_batches"):
        waiting = getattr(admitter, "waiting", 0)
    return waiting


def _left(admitter: Any) -> int | None:
    """The places that the admitter itself has left; ``None`` where it counts none."""
    limit, taken = getattr(admitter, "limit", None), getattr(admitter, "in_flight", 0)
    return None if limit is None else max(limit - taken, 0)
