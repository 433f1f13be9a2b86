"""How much room there is behind a route: the free places of its backends, whichever route took the others.

A place is taken from the moment in which somebody is let in (``hold``) until the attempt has landed. In between there
is no gap: the dispatch of an attempt takes over what was held for it.

Whoever waits is called when an attempt has landed and when a place that was held is given up; and every ``BEAT_S``, for
what nobody tells us: a rest that is over, a backend that is back, another replica's attempt, a limit that has grown.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from math import inf

from gateway.ports import Backend
from gateway.rules.route import Route

BEAT_S = 0.05
"""The longest that a free place stays unnoticed while somebody waits for it."""

SHORT_REST_S = 5.0
"""Where all backends are down, but one is expected back so soon, it is waited for; else waiting helps nobody."""

_MOST_ROOMS = 256

Places = tuple[int | None, float | None]
"""The free places of a backend, ``None`` for any number; and for how many seconds it takes nothing, else ``None``."""

Look = Callable[[Route, Mapping[str, Backend]], Iterable[Places]]


class Rooms:
    """All rooms of a fleet. They outlive reloads: who waits in the old world is called as anybody is.

    Args:
        look: how the backends of a route stand now, one ``Places`` each.
    """

    def __init__(self, look: Look) -> None:
        self._look = look
        self._rooms: dict[str, RouteRoom] = {}
        self._held: dict[str, RouteRoom] = {}
        self._holding: Counter[frozenset[str]] = Counter()
        self._waiting: dict[RouteRoom, Callable[[], None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._called = False
        self.waits: Callable[[], None] | None = None
        """Called when somebody begins to wait: by whoever fills idle places, and would rather give them back."""
        self.expected: set[str] = set()
        """Requests, by id, that whoever fills idle places has let come, and that have not been dispatched yet."""

    def of(self, route: Route, backends: Mapping[str, Backend]) -> "RouteRoom":
        """The room of a route; a new one where a reload has changed the route or the backends."""
        room = self._rooms.get(route.name)
        if room is None or room.route is not route or room.backends is not backends:
            if len(self._rooms) >= _MOST_ROOMS:  # routes that reloads have left behind
                self._rooms.clear()
            room = self._rooms[route.name] = RouteRoom(self, route, backends)
        return room

    def free(self, room: "RouteRoom") -> int | None:
        """See ``Room.free``."""
        free, up, back_s = 0, False, inf
        for places, rests_s in self._look(room.route, room.backends):
            if rests_s is not None:
                back_s = min(back_s, rests_s)
            elif places is None:
                return None
            else:
                up, free = True, free + max(places, 0)
        if not up:
            return 0 if back_s <= SHORT_REST_S else None
        held = sum([count for names, count in self._holding.items() if not names.isdisjoint(room.names)])
        return max(free - held, 0)

    def hold(self, request: str, room: "RouteRoom") -> None:
        """See ``Room.hold``."""
        if request not in self._held:
            self._held[request] = room
            self._holding[room.names] += 1

    def release(self, request: str) -> None:
        """The place that was held for the request is free, or has become an attempt's."""
        if self.expected:
            self.expected.discard(request)
        room = self._held.pop(request, None)
        if room is None:
            return
        self._holding[room.names] -= 1
        if not self._holding[room.names]:
            del self._holding[room.names]
        self.freed()

    def when_free(self, room: "RouteRoom", serve: Callable[[], None]) -> None:
        """See ``Room.when_free``."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._beat, self._called = loop, None, False
            self._waiting.clear()
        self._waiting[room] = serve
        if self.waits is not None:
            loop.call_soon(self.waits)
        if self._beat is None:
            self._beat = loop.call_later(BEAT_S, self._call)

    def freed(self) -> None:
        """There may be more room than before: whoever waits is called, soon."""
        if self._waiting and not self._called and self._loop is not None:
            self._called = True
            self._loop.call_soon(self._call)

    def _call(self) -> None:
        loop = asyncio.get_running_loop()
        self._called = False
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None
        waiting, self._waiting = self._waiting, {}
        for serve in waiting.values():
            loop.call_soon(serve)  # each on its own: what one does wrong must not keep the others waiting


class RouteRoom:
    """The ``gateway.admission.Room`` of one route in one world."""

    __slots__ = ("_rooms", "backends", "names", "route")

    def __init__(self, rooms: Rooms, route: Route, backends: Mapping[str, Backend]) -> None:
        self._rooms = rooms
        self.route = route
        self.backends = backends
        self.names = frozenset(target.backend for target in route.targets)

    def free(self) -> int | None:
        """See ``Room.free``."""
        return self._rooms.free(self)

    def hold(self, request: str) -> None:
        """See ``Room.hold``."""
        self._rooms.hold(request, self)

    def release(self, request: str) -> None:
        """See ``Room.release``."""
        self._rooms.release(request)

    def when_free(self, serve: Callable[[], None]) -> None:
        """See ``Room.when_free``."""
        self._rooms.when_free(self, serve)
