"""The shape of a turn, which all queues share: somebody comes, waits or not, holds a place, and leaves.

What a queue decides is who is next; that a place is given once, given back whatever happens, and that nobody who left
keeps one, is here.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from msgspec import Struct

from gateway.admission import Queued, Room
from gateway.types import Context

SOONEST_RETRY_S = 1.0
"""Nobody is told to come back sooner."""

_DRAIN_HALF_LIFE_S = 5.0


class Door(Protocol):
    """A queue, as its guests see it."""

    def enters(self, guest: "Guest") -> bool:
        """Whether there is a place, which is taken then."""
        ...

    async def wait(self, guest: "Guest") -> None:
        """Returns with a place, or raises without one; there was none just now."""
        ...

    def leave(self, guest: "Guest") -> None:
        """The place is free again."""
        ...


class Guest(Struct, eq=False):
    """One request's visit (``gateway.admission.Visit``): a class, since a generator would cost three times as much."""

    door: Door
    ctx: Context
    room: Room
    loop: asyncio.AbstractEventLoop
    queued: Queued | None = None
    since_s: float = 0.0
    entered_s: float = 0.0

    async def __aenter__(self) -> None:
        self.since_s = self.entered_s = self.loop.time()
        if not self.door.enters(self):
            await self.door.wait(self)
            self.entered_s = self.loop.time()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.door.leave(self)

    async def turn(self, turn: "asyncio.Future[bool]", patience_s: float, give_back: Callable[[], None]) -> bool:
        """Whether the turn came, which is the future's result, within ``patience_s``.

        A turn has one fate: whoever sets it first decides. A place that came just before a cancellation goes back.
        """
        too_late = self.loop.call_later(patience_s, _expire, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                give_back()
            raise
        finally:
            too_late.cancel()

    def met(self, position: int, wait_s: float) -> None:
        """Notes how it met the queue: the place there, and the seconds waited or, where it is refused, to wait."""
        self.queued = Queued(position=position, wait_s=wait_s)


class DrainRate:
    """How many leave a queue in a second, for whatever reason: a count that fades, by half in 5 s.

    ::

        rate = sum of 2 ** -(age_s / 5) over those who left / what that sum is for one a second

    The second term is ``5 / ln 2`` after a long time, and less while the first one has left only a while ago.
    """

    __slots__ = ("_begun_s", "_count", "_seen_s")

    def __init__(self) -> None:
        self._begun_s: float | None = None
        self._seen_s = 0.0
        self._count = 0.0

    def left(self, now_s: float, after_s: float) -> None:
        """One has left, after ``after_s`` in the queue."""
        if self._begun_s is None:
            self._begun_s = self._seen_s = now_s - after_s
        self._count = self._count * _fading(now_s - self._seen_s) + 1.0
        self._seen_s = now_s

    def wait_s(self, waiting: float, now_s: float) -> float | None:
        """How long until so many have left; ``None`` where nobody has yet."""
        if self._begun_s is None:
            return None
        count = self._count * _fading(now_s - self._seen_s)
        one_a_second = _DRAIN_HALF_LIFE_S / _LN_2 * (1 - _fading(now_s - self._begun_s))
        return waiting * one_a_second / count if count > _LEAST_COUNT else None


_LN_2 = 0.6931471805599453
_LEAST_COUNT = 0.05


def _fading(elapsed_s: float) -> float:
    return float(2.0 ** (-max(elapsed_s, 0.0) / _DRAIN_HALF_LIFE_S))


def _expire(turn: "asyncio.Future[bool]") -> None:
    if not turn.done():
        turn.set_result(False)
