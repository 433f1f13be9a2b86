"""So many at once, so many waiting, so long; the rest is told when to come back."""

import asyncio
import math
from collections import OrderedDict
from dataclasses import dataclass, field
from types import TracebackType

from gateway.errors import Overloaded
from gateway.types import Context

_FRESH_WEIGHT = 0.1
_SOONEST_RETRY_S = 1.0


class _Places:
    """Who holds and who waits. The queue is a dict in the order of arrival: a waiter leaves its middle in one step."""

    __slots__ = ("mean_hold_s", "queue", "taken")

    def __init__(self) -> None:
        self.taken = 0
        self.queue: OrderedDict[asyncio.Future[bool], None] = OrderedDict()
        self.mean_hold_s: float | None = None

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
    ended, ``wait_s`` stands in for it. Time is the event loop's monotonic clock.

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

    def admit(self, ctx: Context) -> "_Place":  # noqa: ARG002  # the port's signature
        """Holds a place for as long as the block runs.

        Raises:
            Overloaded: the queue is full, or the turn did not come in time.
        """
        return _Place(self)

    async def _enter(self, loop: asyncio.AbstractEventLoop) -> None:
        places = self._places
        if places.taken < self.limit:
            places.taken += 1
        elif len(places.queue) >= self.queue:
            raise self._overloaded(f"{self.limit} requests are running and {len(places.queue)} are waiting")
        else:
            await self._wait(loop)

    def _leave(self, held_s: float) -> None:
        self._places.held(held_s)
        self._give_back()

    async def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Returns with a place, or raises without one. A turn has one fate: whoever sets it first decides."""
        queue = self._places.queue
        turn: asyncio.Future[bool] = loop.create_future()
        queue[turn] = None
        too_late = loop.call_later(self.wait_s, _expire, turn)
        try:
            came = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self._give_back()  # the place came, and the cancellation right after it
            raise
        finally:
            too_late.cancel()
            queue.pop(turn, None)
        if not came:
            raise self._overloaded(f"no place came free within {self.wait_s:g} s")

    def _give_back(self) -> None:
        places = self._places
        places.taken -= 1
        while places.queue and places.taken < self.limit:
            turn, _ = places.queue.popitem(last=False)
            if not turn.done():
                places.taken += 1
                turn.set_result(True)

    def _overloaded(self, reason: str) -> Overloaded:
        places = self._places
        hold_s = self.wait_s if places.mean_hold_s is None else places.mean_hold_s
        drain_s = (len(places.queue) + 1) * hold_s / self.limit
        return Overloaded(reason, retry_after_s=max(_SOONEST_RETRY_S, drain_s))


class _Place:
    """The block of one request; a class, since a generator would cost each request three times as much."""

    __slots__ = ("_loop", "_policy", "_since_s")

    def __init__(self, policy: FixedConcurrency) -> None:
        self._policy = policy
        self._loop = asyncio.get_running_loop()
        self._since_s = 0.0

    async def __aenter__(self) -> None:
        await self._policy._enter(self._loop)  # noqa: SLF001  # one thing in two classes
        self._since_s = self._loop.time()

    async def __aexit__(
        self, cls: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._policy._leave(self._loop.time() - self._since_s)  # noqa: SLF001  # likewise


def _expire(turn: "asyncio.Future[bool]") -> None:
    if not turn.done():
        turn.set_result(False)
