"""Spilling over: what would be late at home, or wait for too long there, goes to a backend that is paid for it.

Its money is reserved before and settled after, on an account that workers and replicas share like every limit.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from gateway.admission import Room
from gateway.attempt.admitted import Admitted
from gateway.attempt.trial import Bench
from gateway.decide import decide, refusal
from gateway.errors import NoCandidate, Overloaded, Rejected, UpstreamError
from gateway.exchange import Exchange
from gateway.forecast import Seconds
from gateway.ledger.journal import Journal
from gateway.limits.gate import dearest_usd, expected, taken
from gateway.limits.limit import Claim, Limit, Measure
from gateway.rules.route import Route, Spill
from gateway.rules.world import World
from gateway.types import Bill, Candidate, Context, Exclusion

SPILL = "spill"
"""By this name decisions say why nobody at home is asked, where a filter's name stands else."""

Serve = Callable[[Route, Sequence[Exclusion]], Awaitable[None]]
"""Decides and attempts on a route; the exclusions are those of candidates that were never in question."""


@dataclass(slots=True, kw_only=True, eq=False)
class Spillover:
    """One request on a route that spills over.

    ``route`` is the one at home, ``spill`` says where to and for how much. ``own_limits`` are those of the request's
    key, tenant and team; of them those on money hold elsewhere, too. ``serve`` serves it.
    """

    bench: Bench
    world: World
    route: Route
    spill: Spill
    ctx: Context
    journal: Journal
    exchange: Exchange
    own_limits: Sequence[Limit]
    serve: Serve

    async def run(self, room: Room) -> None:
        """Serves the request: elsewhere where it is short of room at home and the money is there, else at home.

        Raises:
            HeadraceError: as at home.
        """
        why = self._short(room)
        if why and await self._elsewhere(why):
            return
        try:
            async with Admitted(self.route.admitter.admit(self.ctx, room), self.journal):
                await self.serve(self.route, ())
        except (Overloaded, NoCandidate) as refused:
            gone = self.journal.attempts or self.exchange.started
            if gone or not await self._elsewhere(f"refused at home: {refused.message}"):
                raise

    # ---- why --------------------------------------------------------------------------------------------------------

    def _short(self, room: Room) -> str:
        """Why there is too little room at home, with the numbers; empty where there is enough."""
        ask = getattr(self.route.admitter, "expected_wait_s", None)
        queue_s = ask(self.ctx, room) if ask is not None else 0.0
        decision = decide(self.route, self.ctx, self._look(self.route))
        if not decision.order:
            refused = refusal(self.route, decision)
            return f"nobody at home: {refused.message}" if isinstance(refused, NoCandidate) else ""
        wait_s = queue_s + min(bill.candidate.wait_s for bill in decision.order)
        if wait_s > self.spill.after_s:
            return f"it would wait {wait_s:.1f} s, more than {self.spill.after_s:g} s"
        late = [self._late(bill, queue_s) for bill in decision.order]
        return late[0] if all(late) else ""

    def _late(self, bill: Bill, queue_s: float) -> str:
        """What would be late in one case of five or more; empty where nothing would."""
        deadline, candidate = self.ctx.deadline, bill.candidate
        if deadline is None:
            return ""
        first = Seconds.around(queue_s + candidate.first_token_p50_s, queue_s + candidate.first_token_p90_s)
        if deadline.first_token_s is not None and first.p80 > deadline.first_token_s:
            return f"one in five first tokens would take {first.p80:.1f} s or more, of {deadline.first_token_s:g} s"
        whole = self.ctx.forecast.total_s(
            first_token_p50_s=first.p50, first_token_p90_s=first.p90, seconds_per_token=candidate.seconds_per_token
        )
        if deadline.total_s is not None and whole.p80 > deadline.total_s:
            return f"one in five answers would take {whole.p80:.1f} s or more, of {deadline.total_s:g} s"
        return ""

    def _look(self, route: Route) -> tuple[Candidate, ...]:
        return self.bench.fleet.snapshot(route, self.ctx, self.world.backends)

    # ---- and for how much -------------------------------------------------------------------------------------------

    async def _elsewhere(self, why: str) -> bool:
        """Serves it elsewhere; whether that was possible. One that failed unseen may still be served at home."""
        away, attempts = self.spill.route, self.journal.attempts
        priced = [one for one in self._look(away) if one.price is not None]
        if not (order := decide(away, self.ctx, tuple(priced)).order) or not await self._pay(order):
            return False
        here = [Exclusion(candidate=one, filter=SPILL, reason=why) for one in self._look(self.route)]
        before = len(attempts)
        try:
            await self.serve(away, here)
        except UpstreamError as error:
            if self.exchange.started or not error.retryable or len(attempts) >= self.route.attempts:
                raise
            return False
        finally:
            self._settle(taken(attempts[before:]))
        return True

    async def _pay(self, order: Sequence[Bill]) -> bool:
        """Reserves the dearest of what it may cost, for the longest answer that the request allows where it says so."""
        gate, request, forecast = self.bench.gate, self.ctx.request, self.ctx.forecast
        if gate is None:
            return False
        longest = forecast.output_tokens_p90 if request.max_tokens is None else request.max_tokens * request.n
        usd = dearest_usd(forecast, [bill.candidate for bill in order], output_tokens=longest)
        claim = Claim(nano_usd=expected(forecast, usd).nano_usd)
        lasts_s, paid = self.route.patience.total_s, False
        try:
            await gate.enter(self._name, (self.spill.budget,), claim, lasts_s=lasts_s)
            if own := tuple(limit for limit in self.own_limits if limit.measure is Measure.USD):
                await gate.enter(self._own_name, own, claim, lasts_s=lasts_s)
            paid = True
        except Rejected:
            return False
        finally:
            if not paid:  # refused, or the client has left in the middle
                self._settle(Claim())
        return True

    def _settle(self, used: Claim) -> None:
        if self.bench.gate is not None:
            self.bench.gate.leave(self._name, used)
            self.bench.gate.leave(self._own_name, Claim())  # the request's own stay settles all that it took

    @property
    def _name(self) -> str:
        return f"{self.ctx.request.arrival.id}/spill"

    @property
    def _own_name(self) -> str:
        return f"{self.ctx.request.arrival.id}/spill-own"
