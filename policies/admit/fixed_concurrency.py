"""So many at once, so many waiting, so long; the rest is told when to come back."""

import asyncio
import math
from collections import OrderedDict
from dataclasses import dataclass, field

from gateway.admission import Room
from gateway.errors import Overloaded
from gateway.types import Context
from policies.admit._turns import SOONEST_RETRY_S, Guest

_FRESH_WEIGHT = 0.1


class _Places:
    """Who holds and who waits. The queue is a dict in the order of arrival: a waiter leaves its middle in one step."""

    __slots__ = ("_loop", "mean_hold_s", "queue", "taken")

    def __init__(self) -> None:
        self.taken = 0
        self.queue: OrderedDict[asyncio.Future[bool], None] = OrderedDict()
        self.mean_hold_s: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        """That which runs: asked for once, since each time costs a system call."""
        if self._loop is None or not self._loop.is_running():
            self._loop = asyncio.get_running_loop()
        return self._loop

    def held(self, seconds: float) -> None:
        if self.mean_hold_s is None:
            self.mean_hold_s = seconds
        else:
            self.mean_hold_s += _FRESH_WEIGHT * (seconds - self.mean_hold_s)


@dataclass(frozen=True, kw_only=True)
class FixedConcurrency:
    """So many at once, so many waiting, so long; the rest is told when to come back.

    First come, first served. A request is refused at once where the queue is full, and after ``wait_s`` where its turn
    has not come. Both are told how long the present queue takes to drain, and never less than a second::

        retry_after_s = max(1, (waiting + 1) x mean_hold_s / limit)

    ``mean_hold_s`` is the running mean of how long a place was held, however that ended; before the first one has
    ended, ``wait_s`` stands in for it. Time is the event loop's monotonic clock. It counts its own places alone,
    whatever room the backends have: ``fair_queue`` asks them.

    Attributes:
        limit: requests that run at the same time.
        queue: requests that may wait; 0 refuses at once.
        wait_s: the longest that one waits.

    Example::

        admit: {use: fixed_concurrency, limit: 64, queue: 256, wait_s: 10}
    """

    limit: int = 64
    queue: int = 256
    wait_s: float = 10.0
    _places: _Places = field(init=False, repr=False, compare=False, default_factory=_Places)

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"`limit` must be at least 1, and is {self.limit}")
        if self.queue < 0:
            raise ValueError(f"`queue` must not be negative, and is {self.queue}")
        if not 0 < self.wait_s < math.inf:
            raise ValueError(f"`wait_s` must be positive, and is {self.wait_s}")

    @property
    def in_flight(self) -> int:
        """How many hold a place now."""
        return self._places.taken

    @property
    def waiting(self) -> int:
        """How many wait for one."""
        return len(self._places.queue)

    def admit(self, ctx: Context, room: Room) -> Guest:
        """Holds a place for as long as the block runs.

        Raises:
            Overloaded: the queue is full, or the turn did not come in time.
        """
        return Guest(self, ctx, room, self._places.loop())

    def expected_wait_s(self, ctx: Context, room: Room) -> float:  # noqa: ARG002  # the port's signature
        """See ``Queue.expected_wait_s``."""
        return 0.0 if self._places.taken < self.limit else self._drain_s()

    def enters(self, guest: Guest) -> bool:  # noqa: ARG002  # the queue's signature
        """Whether there is a place, which is taken then."""
        if self._places.taken >= self.limit:
            return False
        self._places.taken += 1
        return True

    async def wait(self, guest: Guest) -> None:
        """Returns with a place, or raises without one."""
        places = self._places
        position, drain_s = len(places.queue) + 1, self._drain_s()
        if position > self.queue:
            guest.met(position, drain_s)
            raise self._overloaded(f"{self.limit} requests are running and {len(places.queue)} are waiting")
        turn: asyncio.Future[bool] = guest.loop.create_future()
        places.queue[turn] = None
        try:
            came = await guest.turn(turn, self.wait_s, self._give_back)
        finally:
            places.queue.pop(turn, None)
        guest.met(position, guest.loop.time() - guest.since_s)
        if not came:
            raise self._overloaded(f"no place came free within {self.wait_s:g} s")

    def leave(self, guest: Guest) -> None:
        """The place is free again."""
        self._places.held(guest.loop.time() - guest.entered_s)
        self._give_back()

    def _give_back(self) -> None:
        places = self._places
        places.taken -= 1
        while places.queue and places.taken < self.limit:
            turn, _ = places.queue.popitem(last=False)
            if not turn.done():
                places.taken += 1
                turn.set_result(True)

    def _drain_s(self) -> float:
        hold_s = self.wait_s if self._places.mean_hold_s is None else self._places.mean_hold_s
        return (len(self._places.queue) + 1) * hold_s / self.limit

    def _overloaded(self, reason: str) -> Overloaded:
        return Overloaded(reason, retry_after_s=max(SOONEST_RETRY_S, self._drain_s()))
