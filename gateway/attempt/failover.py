"""The failover loop: the only place where a request is tried again, and only while the client has seen nothing.

The one exception is a broken stream that another backend goes on with, where the route says so.
"""

from collections.abc import Sequence

from msgspec import Struct

from gateway.attempt.answer_headers import dropped_header
from gateway.attempt.continuation import Continuable, those_that_go_on
from gateway.attempt.hedge import Hedger, Race, Side, may_hedge
from gateway.attempt.time_limit import TimeLimits
from gateway.attempt.trial import Bench, Trial, Turn
from gateway.decide import refusal, some_may_be_back
from gateway.errors import HeadraceError, Overloaded, UpstreamContextExceeded, UpstreamError, UpstreamOutOfFunds
from gateway.exchange import Exchange
from gateway.ledger.journal import Journal
from gateway.limits.gate import dearest_usd, expected, taken
from gateway.limits.limit import Limit
from gateway.limits.refusal import unpriced
from gateway.rules.route import Route
from gateway.rules.world import World
from gateway.types import Bill, Candidate, Context, Decision, Finish, Outcome, Status
from gateway.wire.openai_continuation import may_continue


class Failover(Struct, kw_only=True, eq=False):
    """Tries a request's candidates in order. ``hedger`` is the route's, ``None`` where nobody is asked twice.

    All tries count against the route's one budget of attempts: the next candidate, the same one with another key, and
    a second one beside a first that is late; so do those ``made`` before, in earlier steps of a cascade. ``deadline_s``
    is on the clock of ``limits``; the route's patience from now on where it is ``None``.
    """

    bench: Bench
    world: World
    route: Route
    ctx: Context
    journal: Journal
    exchange: Exchange
    limits: TimeLimits
    hedger: Hedger | None = None
    deadline_s: float | None = None
    made: int = 0
    _deadline_s: float = 0.0
    _left: list[Bill] = []
    _broken: Continuable | None = None
    _full: HeadraceError | None = None
    _holds: tuple[int, ...] = ()
    _all_final: bool = True

    async def run(self, decision: Decision) -> None:
        """Serves the request, or says why not; every attempt is in the journal, and the outcome where it went well.

        Raises:
            HeadraceError: the last failure, or the reason why there was none to try.
        """
        given_s = self.deadline_s
        self._deadline_s = self.limits.now_s() + self.route.patience.total_s if given_s is None else given_s
        self._left = [*decision.order]
        if self.route.resume and may_continue(self.ctx.request):
            self.exchange = self._broken = Continuable(self.exchange, self.ctx)
        failure: HeadraceError | None = None
        while (bill := await self._next()) is not None:
            try:
                finish = await self._attempt(bill)
            except UpstreamError as error:
                error.final = error.final and self._all_final and not self._left
                error.final = error.final and not some_may_be_back(self.route, decision)
                if not error.retryable or self.limits.now_s() >= self._deadline_s or not self._may_go_on():
                    raise
                failure = error
            else:
                self.journal.outcome = Outcome(status=Status.OK, http_status=200, finish_reason=finish.reason)
                return
        raise failure or self._full or refusal(self.route, decision)

    def _may_go_on(self) -> bool:
        """Whether another attempt may follow: what the client has seen can only be gone on with."""
        if not self.exchange.started:
            return True
        self._left = [*those_that_go_on(self._left)]
        rest = self._broken.rest(self.journal.attempts) if self._broken is not None and self._left else None
        self.ctx = rest or self.ctx
        return rest is not None

    async def _next(self) -> Bill | None:
        """The next candidate whose own limits have room, while there are attempts left."""
        while self._left and self.made < self.route.attempts:
            bill = self._left.pop(0)
            limits = self.world.tenancy.backends.get(bill.candidate.backend)
            self._full = await self._backend_is_full(bill.candidate, limits) if limits else None
            if self._full is None:
                return bill
        return None

    async def _attempt(self, bill: Bill) -> Finish:
        broken = self._broken if self._broken is not None and self._broken.resumes else None
        if self.hedger is not None and broken is None and self._may_race():
            return await self._race(self.hedger, bill)
        if broken is not None:
            broken.resume(bill.candidate.backend, self.journal.attempts)
        trial = self._trial(bill, self.exchange)
        try:
            return await trial.run()
        finally:
            self.journal.attempts.extend(trial.attempts if broken is None else broken.marked(trial.attempts))
            self._leave(bill, trial)

    def _may_race(self) -> bool:
        """Whether another candidate may be asked beside the first."""
        return bool(self._left) and self.made + 1 < self.route.attempts and may_hedge(self.ctx.request)

    async def _race(self, hedger: Hedger, bill: Bill) -> Finish:
        """The attempt, and where it is late, another one beside it."""
        race = Race(self.exchange)
        trials: list[tuple[Bill, Trial]] = []

        async def second() -> tuple[Trial, Side] | None:
            if not hedger.spend(self.ctx, self._left[0].candidate):
                return None
            other = await self._next()
            return begin(other) if other is not None else None

        def begin(bill: Bill) -> tuple[Trial, Side]:
            side = race.side()
            trial = self._trial(bill, side)
            trials.append((bill, trial))
            return trial, side

        hedger.earn(bill)
        elapsed_s = self.bench.clock.now_s() - self.ctx.request.arrival.received_s
        wait_s = hedger.wait_s(self.ctx, bill.candidate, elapsed_s=elapsed_s)
        try:
            return await race.run(begin(bill), wait_s=wait_s, second=second)
        finally:
            self.journal.attempts.extend(race.attempts)
            for bill_, trial in trials:
                trial.give_up()
                self._leave(bill_, trial)

    def _trial(self, bill: Bill, exchange: Exchange) -> Trial:
        self.made += 1
        dropped = self.route.dropped(self.ctx, bill.candidate)
        headers = (*self.journal.headers, dropped_header(dropped)) if dropped else self.journal.headers
        more = min(len(self._left), self.route.attempts - self.made)
        return Trial(
            self.bench,
            self.limits,
            ctx=self.ctx,
            candidate=bill.candidate,
            backend=self.world.backends[bill.candidate.backend],
            exchange=exchange,
            patience=self.route.patience,
            turn=Turn(self.made, 1 + more, self._deadline_s, headers, dropped),
        )

    async def _backend_is_full(self, candidate: Candidate, limits: Sequence[Limit]) -> HeadraceError | None:
        """Reserves the attempt on the backend's own limits; the reason where they refuse."""
        gate = self.bench.gate
        if gate is None:
            return None
        if candidate.price is None and (blind := next((limit for limit in limits if limit.priced_only), None)):
            return unpriced(blind)
        forecast = gate.overhead.lengthened(self.ctx.request, self.ctx.forecast)
        claim = expected(forecast, dearest_usd(forecast, [candidate]))
        try:
            await gate.enter(self._name(self.made + 1), limits, claim, lasts_s=self.route.patience.total_s)
        except Overloaded as error:
            return error
        self._holds = (*self._holds, self.made + 1)
        return None

    def _leave(self, bill: Bill, trial: Trial) -> None:
        """The attempt is over: what it held is given back, and what it told says who is worth asking next."""
        if self._holds and self.bench.gate is not None and trial.number in self._holds:
            self.bench.gate.leave(self._name(trial.number), taken(trial.attempts))
        if trial.failure is not None:
            self._all_final = self._all_final and trial.failure.final
            self._think_again(bill, trial.failure)

    def _think_again(self, bill: Bill, failure: UpstreamError) -> None:
        candidate = bill.candidate
        if failure.another_key:
            self._left.insert(0, bill)
        elif isinstance(failure, UpstreamOutOfFunds):  # its other models are on the same account
            self._left = [left for left in self._left if left.candidate.backend != candidate.backend]
        elif isinstance(failure, UpstreamContextExceeded):
            self._left = [left for left in self._left if _is_larger(left.candidate, candidate)]

    def _name(self, number: int) -> str:
        return f"{self.ctx.request.arrival.id}/{number}"


def _is_larger(one: Candidate, other: Candidate) -> bool:
    """Whether a window may be larger than another: of two that are not both known, unless the model is the same."""
    if one.context_tokens is None or other.context_tokens is None:
        return one.model != other.model
    return one.context_tokens > other.context_tokens
