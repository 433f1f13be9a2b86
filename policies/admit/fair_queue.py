"""A bounded queue that serves classes in their order, tenants fairly, and what is short and urgent first."""

import asyncio
import math
from dataclasses import dataclass, field

from gateway.admission import Room
from gateway.errors import Overloaded
from gateway.types import Context, LedgerEntry
from policies.admit._fair_order import CLASSES, FairOrder, Waiter
from policies.admit._pace import Pace, expected_tokens, used_tokens
from policies.admit._turns import SOONEST_RETRY_S, DrainRate, Guest


class _State:
    """Who holds, who waits, and how long work takes."""

    __slots__ = (
        "drained",
        "latest",
        "order",
        "pace",
        "queued_bytes",
        "queued_tokens",
        "running",
        "running_tokens",
        "taken",
        "turns",
    )

    def __init__(self, age_s: float) -> None:
        self.order = FairOrder(age_s=age_s)
        self.turns: dict[Waiter, tuple[asyncio.Future[bool], Guest]] = {}
        self.latest: Guest | None = None  # who came last knows the room as it is since the last reload
        self.drained = tuple(DrainRate() for _ in CLASSES)  # of each class and those above
        self.taken = 0
        self.running: dict[str, tuple[str, float, int]] = {}
        self.running_tokens = 0
        self.queued_tokens = 0
        self.queued_bytes = 0
        self.pace = Pace()


@dataclass(frozen=True, kw_only=True)
class FairQueue:
    """A bounded queue that serves classes in their order, tenants fairly, and what is short and urgent first.

    A request runs when one of the route's backends has room for it (``concurrency``, fixed or adaptive, all routes
    together), and no more than ``limit`` run at a time; the rest wait. Which backend it will be is decided when its
    turn has come, on what is true then. Who is next:

    1. the class, by the tenant's ``priority`` (``interactive``, ``standard``, ``batch``); waiting for ``age_s`` lifts a
       class by one, so that nothing starves;
    2. the tenant that was served the fewest tokens for its ``weight``, by virtual token counters: what a request is
       predicted to write and read is charged when it begins, and settled when it ends;
    3. the request with the smallest ``work_s x slack_s``.

    ::

        work_s    = (prompt_tokens / 20 + output_tokens_p50) x seconds_per_token
        slack_s   = the smaller of  deadline.total_s - 1.3 x work_s  and  deadline.first_token_s - read_s
        wait_s    = (work of one that runs + of the classes above + of its tenant before it, and the others' turns
                    meanwhile) / running
        shed where  waited + wait_s > slack_s

    ``seconds_per_token`` is that of the last fifty or so finished requests, at the load that there was: all of their
    seconds over all of their tokens, since single short answers are all overhead; reading a token takes about a
    twentieth of writing one. ``read_s`` is learned from their first tokens likewise. A request with no deadline may
    wait ``wait_s`` seconds.

    Who finds the queue full, or could not be done in time, is refused at once and told when those who wait now will
    have left the queue, by how many did so lately; at least a second.

    Attributes:
        limit: requests that run at the same time, at most; ``null`` where the backends' room alone decides, which needs
            their ``concurrency``.
        queue: requests that may wait; 0 refuses at once.
        queue_tokens: predicted tokens that may wait, in all.
        queue_bytes: bytes of requests that may wait, in all.
        wait_s: the longest that one waits.
        age_s: after so long, a request is served as if it were of the class above.
        shed_factor: how much longer than predicted an answer is taken to be, where there is a deadline.

    Example::

        admit: {use: fair_queue, limit: 64, queue: 2000, wait_s: 30}
    """

    limit: int | None = 64
    queue: int = 1024
    queue_tokens: int = 4_000_000
    queue_bytes: int = 256 * 1024 * 1024
    wait_s: float = 30.0
    age_s: float = 20.0
    shed_factor: float = 1.3
    _state: _State = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"`limit` must be at least 1, and is {self.limit}")
        for name in ("queue", "queue_tokens", "queue_bytes"):
            if getattr(self, name) < 0:
                raise ValueError(f"`{name}` must not be negative, and is {getattr(self, name)}")
        for name in ("wait_s", "age_s", "shed_factor"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"`{name}` must be positive, and is {getattr(self, name)}")
        object.__setattr__(self, "_state", _State(self.age_s))

    @property
    def in_flight(self) -> int:
        """How many hold a place now."""
        return self._state.taken

    @property
    def waiting(self) -> int:
        """How many wait for one."""
        return len(self._state.order)

    @property
    def waiting_before_batches(self) -> int:
        """How many of them are of a class above ``batch``."""
        return self._state.order.position(len(CLASSES) - 2)

    def admit(self, ctx: Context, room: Room) -> Guest:
        """Holds a place for as long as the block runs.

        Raises:
            Overloaded: the queue is full, the turn did not come in time, or would come too late.
        """
        return Guest(self, ctx, room, asyncio.get_running_loop())

    def expected_wait_s(self, ctx: Context, room: Room) -> float:
        """See ``Queue.expected_wait_s``."""
        if not self._state.order and self._has_place(room):
            return 0.0
        return self._wait_s(self._waiter(ctx, 0.0))

    def observe(self, entry: LedgerEntry) -> None:
        """Learns how long work takes, and charges its tenant what it really was."""
        state = self._state
        charged = state.running.pop(entry.arrival.id, None)
        if charged is None:
            return
        tenant, weight, tokens = charged
        state.running_tokens -= tokens
        used = used_tokens(entry.attempts)
        state.order.charge(tenant, weight, used - tokens)
        state.pace.learn(entry, used)

    def enters(self, guest: Guest) -> bool:
        """Whether there is a place, which is taken then: nobody waits for it."""
        if self._state.order or not self._has_place(guest.room):
            return False
        self._take(guest)
        self._charge(self._waiter(guest.ctx, guest.since_s), guest)
        return True

    async def wait(self, guest: Guest) -> None:
        """Returns with a place, or raises without one."""
        waiter = self._waiter(guest.ctx, guest.since_s)
        await self._wait(waiter, guest)
        self._charge(waiter, guest)

    def _charge(self, waiter: Waiter, guest: Guest) -> None:
        state = self._state
        state.order.charge(waiter.tenant, waiter.weight, waiter.tokens)
        state.running[guest.ctx.request.arrival.id] = (waiter.tenant, waiter.weight, waiter.tokens)
        state.running_tokens += waiter.tokens

    def leave(self, guest: Guest) -> None:
        """The place is free again."""
        self._state.taken -= 1
        guest.room.release(guest.ctx.request.arrival.id)
        self._serve(guest.loop.time())

    # ---- who comes --------------------------------------------------------------------------------------------------

    def _waiter(self, ctx: Context, now_s: float) -> Waiter:
        tokens, pace = expected_tokens(ctx.forecast), self._state.pace
        work_s, slack_s, deadline = tokens * pace.seconds_per_token, self.wait_s, ctx.deadline
        if deadline is not None:
            if deadline.total_s is not None:
                slack_s = min(slack_s, deadline.total_s - self.shed_factor * work_s)
            if deadline.first_token_s is not None:
                slack_s = min(slack_s, deadline.first_token_s - pace.read_s(ctx.forecast.prompt_tokens))
        precedence = ctx.request.arrival.precedence
        return Waiter(
            tenant=ctx.request.arrival.tenant,
            priority=precedence.priority,
            weight=precedence.weight,
            tokens=tokens,
            work_s=work_s,
            slack_s=slack_s,
            since_s=now_s,
        )

    def _wait_s(self, waiter: Waiter) -> float:
        """Until the first of those who run is done, and for what is served before it then."""
        state = self._state
        running_s = state.running_tokens * state.pace.seconds_per_token / max(len(state.running), 1)
        return (running_s + state.order.work_ahead_s(waiter)) / max(state.taken, 1)

    async def _wait(self, waiter: Waiter, guest: Guest) -> None:
        state, size_bytes = self._state, sum(map(len, guest.ctx.request.raw.values()))
        position = state.order.position(waiter.rank) + 1
        self._refuse_hopeless(waiter, guest, size_bytes, position)
        turn: asyncio.Future[bool] = guest.loop.create_future()
        state.turns[waiter], state.latest = (turn, guest), guest
        state.order.push(waiter)
        state.queued_tokens += waiter.tokens
        state.queued_bytes += size_bytes
        self._serve(guest.since_s)
        try:
            came = await guest.turn(turn, min(self.wait_s, max(waiter.slack_s, 0.0)), lambda: self.leave(guest))
        finally:
            del state.turns[waiter]
            if not state.turns:
                state.latest = None
            state.order.remove(waiter)
            state.queued_tokens -= waiter.tokens
            state.queued_bytes -= size_bytes
            now_s = guest.loop.time()
            for rate in state.drained[waiter.rank :]:
                rate.left(now_s, now_s - waiter.since_s)
        guest.met(position, now_s - waiter.since_s)
        if not came:
            raise self._overloaded(f"no place came free within {now_s - waiter.since_s:.1f} s", waiter, now_s)

    def _refuse_hopeless(self, waiter: Waiter, guest: Guest, size_bytes: int, position: int) -> None:
        state, waiting, wait_s = self._state, len(self._state.order), self._wait_s(waiter)
        tokens, queued_bytes = state.queued_tokens + waiter.tokens, state.queued_bytes + size_bytes
        reason = ""
        if waiting >= self.queue:
            reason = f"{state.taken} requests are running and {waiting} are waiting"
        elif tokens > self.queue_tokens or queued_bytes > self.queue_bytes:
            reason = f"{waiting} requests are waiting, and they are large"
        elif wait_s > waiter.slack_s:
            reason = f"the wait of about {wait_s:.1f} s would be too long"
        if reason:
            guest.met(position, wait_s)
            raise self._overloaded(reason, waiter, guest.since_s)

    def _overloaded(self, reason: str, waiter: Waiter, now_s: float) -> Overloaded:
        state, position = self._state, self._state.order.position(waiter.rank)
        drain_s = state.drained[waiter.rank].wait_s(position, now_s)
        if drain_s is None:
            drain_s = state.order.work_before_s(waiter.rank) / max(state.taken, 1)
        return Overloaded(reason, retry_after_s=max(SOONEST_RETRY_S, drain_s))

    # ---- who is next ------------------------------------------------------------------------------------------------

    def _has_place(self, room: Room) -> bool:
        if self.limit is not None and self._state.taken >= self.limit:
            return False
        free = room.free()
        return free is None or free > 0

    def _take(self, guest: Guest) -> None:
        self._state.taken += 1
        guest.room.hold(guest.ctx.request.arrival.id)

    def _serve(self, now_s: float) -> None:
        """Gives free places to those whose turn it is; who could not be done in time any more gets none."""
        state = self._state
        if not state.order or state.latest is None:
            return
        room, loop = state.latest.room, state.latest.loop
        while self._has_place(room) and (waiter := state.order.pop(now_s)) is not None:
            turn, guest = state.turns[waiter]
            if turn.done():
                continue
            in_time = now_s - waiter.since_s <= waiter.slack_s
            if in_time:
                self._take(guest)
            turn.set_result(in_time)
        if state.order and (self.limit is None or state.taken < self.limit):  # else whoever leaves serves the next
            room.when_free(lambda: self._serve(loop.time()))
