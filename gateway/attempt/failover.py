"""The failover loop: the only place where a request is tried again, and only while the client has seen nothing."""

from collections import deque
from dataclasses import dataclass, field

from gateway.attempt.hedge import Hedger, Race, Side, may_hedge
from gateway.attempt.time_limit import TimeLimits
from gateway.attempt.trial import Bench, Trial, Turn
from gateway.decide import refusal
from gateway.errors import HeadraceError, Overloaded, UpstreamError
from gateway.exchange import Exchange
from gateway.ledger.journal import Journal
from gateway.limits.gate import dearest_usd, expected, taken
from gateway.rules.route import Route
from gateway.rules.world import World
from gateway.types import Bill, Candidate, Context, Decision, Finish, Outcome, Status


@dataclass(slots=True, kw_only=True, eq=False)
class Failover:
    """Tries a request's candidates in order. ``hedger`` is the route's, ``None`` where nobody is asked twice."""

    bench: Bench
    world: World
    route: Route
    ctx: Context
    journal: Journal
    exchange: Exchange
    limits: TimeLimits
    hedger: Hedger | None = None
    _deadline_s: float = field(init=False)
    _left: deque[tuple[int, Bill]] = field(init=False)
    _full: HeadraceError | None = field(init=False, default=None)

    async def run(self, decision: Decision) -> None:
        """Serves the request, or says why not; every attempt is in the journal, and the outcome where it went well.

        Raises:
            HeadraceError: the last failure, or the reason why there was none to try.
        """
        self._deadline_s = self.limits.now_s() + self.route.patience.total_s
        self._left = deque(enumerate(decision.order[: self.route.attempts], start=1))
        failure: HeadraceError | None = None
        while (step := await self._next()) is not None:
            try:
                finish = await self._attempt(*step)
            except UpstreamError as error:
                if self.exchange.started or not error.retryable or self.limits.now_s() >= self._deadline_s:
                    raise
                failure = error
            else:
                self.journal.outcome = Outcome(status=Status.OK, http_status=200, finish_reason=finish.reason)
                return
        raise failure or self._full or refusal(self.route, decision)

    async def _next(self) -> tuple[int, Bill] | None:
        """The next candidate whose own limits have room."""
        while self._left:
            number, bill = self._left.popleft()
            self._full = await self._backend_is_full(bill.candidate, number)
            if self._full is None:
                return number, bill
        return None

    async def _attempt(self, number: int, bill: Bill) -> Finish:
        if self.hedger is not None and self._left and may_hedge(self.ctx.request):
            return await self._race(self.hedger, number, bill)
        trial = self._trial(number, bill, self.exchange)
        try:
            return await trial.run()
        finally:
            self._record(number, trial)

    async def _race(self, hedger: Hedger, number: int, bill: Bill) -> Finish:
        """The attempt, and where it is late, another one beside it."""
        race = Race(self.exchange)
        trials: list[tuple[int, Trial]] = []

        async def second() -> tuple[Trial, Side] | None:
            if not hedger.spend(self.ctx, self._left[0][1].candidate):
                return None
            step = await self._next()
            return begin(*step) if step is not None else None

        def begin(number: int, bill: Bill) -> tuple[Trial, Side]:
            side = race.side()
            trial = self._trial(number, bill, side)
            trials.append((number, trial))
            return trial, side

        hedger.earn(bill)
        elapsed_s = self.bench.clock.now_s() - self.ctx.request.arrival.received_s
        wait_s = hedger.wait_s(self.ctx, bill.candidate, elapsed_s=elapsed_s)
        try:
            return await race.run(begin(number, bill), wait_s=wait_s, second=second)
        finally:
            self.journal.attempts.extend(race.attempts)
            for number_, trial in trials:
                self._leave(number_, trial)

    def _trial(self, number: int, bill: Bill, exchange: Exchange) -> Trial:
        return Trial(
            self.bench,
            self.limits,
            ctx=self.ctx,
            candidate=bill.candidate,
            backend=self.world.backends[bill.candidate.backend],
            exchange=exchange,
            patience=self.route.patience,
            turn=Turn(number, number + len(self._left), self._deadline_s, self.journal.headers),
        )

    async def _backend_is_full(self, candidate: Candidate, number: int) -> HeadraceError | None:
        """Reserves the attempt on the backend's own limits; the reason where they refuse."""
        limits, gate = self.world.tenancy.backends.get(candidate.backend), self.bench.gate
        if gate is None or not limits:
            return None
        claim = expected(self.ctx.forecast, dearest_usd(self.ctx.forecast, [candidate]))
        try:
            await gate.enter(self._name(number), limits, claim, lasts_s=self.route.patience.total_s)
        except Overloaded as error:
            return error
        return None

    def _record(self, number: int, trial: Trial) -> None:
        self.journal.attempts.extend(trial.attempts)
        self._leave(number, trial)

    def _leave(self, number: int, trial: Trial) -> None:
        if self.bench.gate is not None:
            self.bench.gate.leave(self._name(number), taken(trial.attempts))

    def _name(self, number: int) -> str:
        return f"{self.ctx.request.arrival.id}/{number}"
