"""The time that a request spends inside its limits: reserved when it enters, settled when it leaves."""

from collections.abc import Callable, Sequence
from types import TracebackType

from gateway.ledger.journal import Journal
from gateway.limits.gate import Gate, dearest_usd, expected, taken_by
from gateway.limits.limit import Limit, Measure
from gateway.limits.refusal import unpriced
from gateway.types import Candidate, Context, Status


class Stay:
    """A block of which a request is a guest. Whatever ends it, what it took is settled and the rest is free again.

    Args:
        gate: where the limits are kept.
        limits: all that hold for the request; not empty.
        journal: its notes, which get the headers that tell the client how its limits stand.
        candidates: who could serve it, asked for where money is limited.
        lasts_s: how long it may take in all.
    """

    __slots__ = ("_candidates", "_ctx", "_gate", "_journal", "_lasts_s", "_limits")

    def __init__(
        self,
        gate: Gate,
        limits: Sequence[Limit],
        ctx: Context,
        journal: Journal,
        *,
        candidates: Callable[[], Sequence[Candidate]],
        lasts_s: float,
    ) -> None:
        self._gate = gate
        self._limits = limits
        self._ctx = ctx
        self._journal = journal
        self._candidates = candidates
        self._lasts_s = lasts_s

    async def __aenter__(self) -> None:
        money = any(limit.measure is Measure.USD for limit in self._limits)
        candidates = self._candidates() if money else ()
        forecast = self._gate.overhead.lengthened(self._ctx.request, self._ctx.forecast)
        claim = expected(forecast, dearest_usd(forecast, candidates))
        try:
            if self._ctx.priced_only and all(one.price is None for one in candidates):
                raise unpriced(next(limit for limit in self._limits if limit.priced_only))
            await self._gate.enter(self._journal.arrival.id, self._limits, claim, lasts_s=self._lasts_s)
        finally:
            self._journal.headers = self._gate.headers(self._limits)

    async def __aexit__(
        self, cls: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        attempts = self._journal.attempts
        self._gate.leave(self._journal.arrival.id, taken_by(self._journal))
        if attempts and attempts[-1].status is Status.OK and (usage := attempts[-1].usage) is not None:
            self._gate.overhead.learn(self._ctx.request, self._ctx.forecast, usage)
