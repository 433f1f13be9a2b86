"""A bounded queue that serves classes in their order, tenants fairly, and what is short and urgent first."""

import asyncio
import math
from dataclasses import dataclass, field
from types import TracebackType

from gateway.errors import Overloaded
from gateway.types import Context, LedgerEntry, Status
from policies.admit._fair_order import FairOrder, Waiter

_FRESH_WEIGHT = 0.1
_SOONEST_RETRY_S = 1.0
_FIRST_GUESS_S = 0.02
"""Seconds a token, before the first answer has shown how long they take."""


class _State:
    """Who holds, who waits, and how long work takes."""

    __slots__ = ("order", "queued_bytes", "queued_tokens", "running", "seconds_per_token", "taken", "turns")

    def __init__(self, age_s: float) -> None:
        self.order = FairOrder(age_s=age_s)
        self.turns: dict[Waiter, asyncio.Future[bool]] = {}
        self.taken = 0
        self.running: dict[str, tuple[str, float, int]] = {}
        self.queued_tokens = 0
        self.queued_bytes = 0
        self.seconds_per_token = _FIRST_GUESS_S


@dataclass(frozen=True, kw_only=True)
class FairQueue:
    """A bounded queue that serves classes in their order, tenants fairly, and what is short and urgent first.

    ``limit`` requests run at a time; the rest wait, and are bound to a backend only when their turn comes. Who is next:

    1. the class, by the tenant's ``priority`` (``interactive``, ``standard``, ``batch``); waiting for ``age_s`` lifts a
       class by one, so that nothing starves;
    2. the tenant that was served the fewest tokens for its ``weight``, by virtual token counters: what a request is
       predicted to write and read is charged when it begins, and settled when it ends;
    3. the request with the smallest ``work_s x slack_s``.

    ::

        work_s    = (prompt_tokens / 20 + output_tokens_p50) x seconds_per_token
        wait_s    = work that waits in its class and above / limit
        shed where  waited + wait_s + 1.3 x work_s > deadline

    ``seconds_per_token`` is the running mean over finished requests, at the load that there is; reading a token takes
    about a twentieth of writing one. A request with no deadline may wait ``wait_s`` seconds.

    Who finds the queue full, or could not be done in time, is refused at once and told how long the queue takes to
    drain, at least a second.

    Attributes:
        limit: requests that run at the same time.
        queue: requests that may wait; 0 refuses at once.
        queue_tokens: predicted tokens that may wait, in all.
        queue_bytes: bytes of prompts that may wait, in all.
        wait_s: the longest that one waits.
        age_s: after so long, a request is served as if it were of the class above.
        shed_factor: how much longer than predicted an answer is taken to be, where there is a deadline.

    Example::

        admit: {use: fair_queue, limit: 64, queue: 2000, wait_s: 30}
    """

    limit: int = 64
    queue: int = 1024
    queue_tokens: int = 4_000_000
    queue_bytes: int = 256 * 1024 * 1024
    wait_s: float = 30.0
    age_s: float = 20.0
    shed_factor: float = 1.3
    _state: _State = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.limit < 1:
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

    def admit(self, ctx: Context) -> "_Place":
        """Holds a place for as long as the block runs.

        Raises:
            Overloaded: the queue is full, the turn did not come in time, or would come too late.
        """
        return _Place(self, ctx)

    def observe(self, entry: LedgerEntry) -> None:
        """Learns how long work takes, and charges its tenant what it really was."""
        state = self._state
        charged = state.running.pop(entry.arrival.id, None)
        if charged is None or not entry.attempts:
            return
        tenant, weight, tokens = charged
        used = sum(a.usage.prompt_tokens // _READ_SHARE + a.usage.output_tokens for a in entry.attempts if a.usage)
        state.order.charge(tenant, weight, used - tokens)
        if entry.outcome.status is Status.OK and used:
            seconds = entry.ended_s - entry.attempts[-1].started_s
            state.seconds_per_token += _FRESH_WEIGHT * (seconds / used - state.seconds_per_token)

    def _waiter(self, ctx: Context, now_s: float) -> Waiter:
        tokens = ctx.forecast.prompt_tokens // _READ_SHARE + ctx.forecast.output_tokens_p50
        work_s = tokens * self._state.seconds_per_token
        total_s = ctx.deadline.total_s if ctx.deadline is not None else None
        precedence = ctx.request.arrival.precedence
        return Waiter(
            tenant=ctx.request.arrival.tenant,
            priority=precedence.priority,
            weight=precedence.weight,
            tokens=tokens,
            work_s=work_s,
            slack_s=self.wait_s if total_s is None else total_s - self.shed_factor * work_s,
            since_s=now_s,
        )

    async def _enter(self, ctx: Context, loop: asyncio.AbstractEventLoop) -> Waiter:
        state = self._state
        waiter = self._waiter(ctx, loop.time())
        if state.taken < self.limit and not state.order:
            state.taken += 1
        else:
            self._refuse_hopeless(waiter, ctx.request.prompt_bytes)
            await self._wait(waiter, ctx.request.prompt_bytes, loop)
        state.order.charge(waiter.tenant, waiter.weight, waiter.tokens)
        state.running[ctx.request.arrival.id] = (waiter.tenant, waiter.weight, waiter.tokens)
        return waiter

    def _refuse_hopeless(self, waiter: Waiter, prompt_bytes: int) -> None:
        state = self._state
        waiting = len(state.order)
        if waiting >= self.queue:
            raise self._overloaded(f"{state.taken} requests are running and {waiting} are waiting")
        if (
            state.queued_tokens + waiter.tokens > self.queue_tokens
            or state.queued_bytes + prompt_bytes > self.queue_bytes
        ):
            raise self._overloaded(f"{waiting} requests are waiting, and they are large")
        wait_s = state.order.work_before_s(waiter.rank) / self.limit
        if wait_s > waiter.slack_s:
            raise self._overloaded(f"the wait of about {wait_s:.1f} s would be too long")

    async def _wait(self, waiter: Waiter, prompt_bytes: int, loop: asyncio.AbstractEventLoop) -> None:
        """Returns with a place, or raises without one. A turn has one fate: whoever sets it first decides."""
        state = self._state
        turn: asyncio.Future[bool] = loop.create_future()
        state.turns[waiter] = turn
        state.order.push(waiter)
        state.queued_tokens += waiter.tokens
        state.queued_bytes += prompt_bytes
        too_late = loop.call_later(min(self.wait_s, max(waiter.slack_s, 0.0)), _expire, turn)
        self._serve(loop)
        try:
            came = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                state.taken -= 1  # the place came, and the cancellation right after it
                self._serve(loop)
            raise
        finally:
            too_late.cancel()
            state.turns.pop(waiter, None)
            state.order.remove(waiter)
            state.queued_tokens -= waiter.tokens
            state.queued_bytes -= prompt_bytes
        if not came:
            raise self._overloaded(f"no place came free within {loop.time() - waiter.since_s:.1f} s")

    def _leave(self, loop: asyncio.AbstractEventLoop) -> None:
        self._state.taken -= 1
        self._serve(loop)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Gives free places to those whose turn it is; who could not be done in time any more gets none."""
        state = self._state
        now_s = loop.time()
        while state.taken < self.limit and (waiter := state.order.pop(now_s)) is not None:
            turn = state.turns[waiter]
            if turn.done():
                continue
            in_time = now_s - waiter.since_s <= waiter.slack_s
            state.taken += in_time
            turn.set_result(in_time)

    def _overloaded(self, reason: str) -> Overloaded:
        state = self._state
        drain_s = state.order.work_before_s(2) / self.limit
        return Overloaded(reason, retry_after_s=max(_SOONEST_RETRY_S, drain_s))


_READ_SHARE = 20


class _Place:
    """The block of one request; a class, since a generator would cost each request three times as much."""

    __slots__ = ("_ctx", "_loop", "_policy")

    def __init__(self, policy: FairQueue, ctx: Context) -> None:
        self._policy = policy
        self._ctx = ctx
        self._loop = asyncio.get_running_loop()

    async def __aenter__(self) -> None:
        await self._policy._enter(self._ctx, self._loop)  # noqa: SLF001  # one thing in two classes

    async def __aexit__(
        self, cls: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._policy._leave(self._loop)  # noqa: SLF001  # likewise


def _expire(turn: "asyncio.Future[bool]") -> None:
    if not turn.done():
        turn.set_result(False)
