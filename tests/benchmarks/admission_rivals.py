"""The field's usual ways to admit, in the shape of our own: a queue with one key, a bound, an end of patience."""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.admission import Room
from gateway.errors import Overloaded
from gateway.types import Context, LedgerEntry
from policies.admit._turns import Guest

_PACE_S = 0.043
_READ_S = 0.2


@dataclass(slots=True)
class _State:
    taken: int = 0
    count: int = 0
    heap: list[tuple[float, float, int, "asyncio.Future[bool]"]] = field(default_factory=list)
    alive: set["asyncio.Future[bool]"] = field(default_factory=set)


@dataclass(frozen=True, kw_only=True, eq=False)
class Rival:
    """So many at once; the rest waits in the order of ``key``, the smallest first.

    ``most`` may wait. ``patience_s`` is how long a request does, from its context; ``None`` for ever.
    """

    limit: int | None = 48
    key: Callable[[Context, float], float] = lambda _, since_s: since_s
    most: int | None = None
    patience_s: Callable[[Context], float] | None = None
    _state: _State = field(init=False, default_factory=_State)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._state.alive)

    def admit(self, ctx: Context, room: Room) -> Guest:
        """See ``Admitter.admit``."""
        return Guest(self, ctx, room, asyncio.get_running_loop())

    def observe(self, entry: LedgerEntry) -> None:
        """Learns nothing."""

    def enters(self, guest: Guest) -> bool:
        """Whether there is a place, which is taken then."""
        del guest
        state = self._state
        if self.limit is not None and (state.taken >= self.limit or state.alive):
            return False
        state.taken += 1
        return True

    async def wait(self, guest: Guest) -> None:
        """Returns with a place, or raises without one."""
        state = self._state
        if self.most is not None and len(state.alive) >= self.most:
            raise Overloaded("full", retry_after_s=1.0)
        patience_s = 1e9 if self.patience_s is None else self.patience_s(guest.ctx)
        turn: asyncio.Future[bool] = guest.loop.create_future()
        state.count += 1
        batch = guest.ctx.request.arrival.precedence.priority == "batch"
        heapq.heappush(
            state.heap, (float(batch and self.key is not FIFO), self.key(guest.ctx, guest.since_s), state.count, turn)
        )
        state.alive.add(turn)
        try:
            came = await guest.turn(turn, max(patience_s, 0.0), lambda: self.leave(guest))
        finally:
            state.alive.discard(turn)
        if not came:
            raise Overloaded("too late", retry_after_s=1.0)

    def leave(self, guest: Guest) -> None:
        """The place is free again."""
        del guest
        state = self._state
        state.taken -= 1
        while state.heap and (self.limit is None or state.taken < self.limit):
            turn = heapq.heappop(state.heap)[-1]
            if not turn.done():
                state.taken += 1
                turn.set_result(True)


def FIFO(ctx: Context, since_s: float) -> float:  # noqa: N802  # its name in every table
    """First come, first served, whatever its class."""
    del ctx
    return since_s


def _arrival(ctx: Context, since_s: float) -> float:
    del ctx
    return since_s


def _deadline_s(ctx: Context) -> float:
    deadline = ctx.deadline
    assert deadline is not None, "every request here has one"
    return deadline.first_token_s or deadline.total_s or 0.0


def _by_deadline(ctx: Context, since_s: float) -> float:
    return since_s + _deadline_s(ctx)


def _by_length(ctx: Context, since_s: float) -> float:
    del since_s
    return float(ctx.forecast.output_tokens_p50)


def _until_deadline(ctx: Context) -> float:
    return _deadline_s(ctx) - _READ_S


def _while_feasible(ctx: Context) -> float:
    deadline = ctx.deadline
    assert deadline is not None, "every request here has one"
    if deadline.first_token_s is not None:
        return deadline.first_token_s - _READ_S
    return (deadline.total_s or 0.0) - _READ_S - ctx.forecast.output_tokens_p50 * _PACE_S


RIVALS: dict[str, Callable[[], Rival]] = {
    "no control": lambda: Rival(limit=None),
    "FIFO": lambda: Rival(key=FIFO),
    "FIFO, at most 100 wait": lambda: Rival(key=FIFO, most=100),
    "FIFO, expiry": lambda: Rival(key=FIFO, patience_s=_until_deadline),
    "earliest deadline, expiry": lambda: Rival(key=_by_deadline, patience_s=_until_deadline),
    "strict priority, expiry": lambda: Rival(key=_arrival, patience_s=_until_deadline),
    "shortest forecast, shed": lambda: Rival(key=_by_length, patience_s=_while_feasible),
}
