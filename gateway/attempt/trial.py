"""One attempt on one backend: its clock, its sink, its place in the fleet, and its line on the ledger."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from gateway.attempt.answer_headers import RawHeader, Receipt
from gateway.attempt.attempt_cost import AttemptCost
from gateway.attempt.pace import attempt_pace
from gateway.attempt.passing_sink import PassingSink
from gateway.attempt.sink import AnswerBounds, ClientSink, estimate_usage
from gateway.attempt.time_limit import TimeLimits
from gateway.errors import ClientGone, GuardBlocked, GuardSilent, HeadraceError, UpstreamError, UpstreamTimeout
from gateway.exchange import Exchange
from gateway.fleet.fleet import Fleet
from gateway.fleet.flight import Flight
from gateway.guarding.guardroom import Guardroom
from gateway.limits.gate import Gate
from gateway.limits.task_admission import TaskAdmission
from gateway.ports import Backend, Clock
from gateway.price import NO_CHARGE, Charge, Usage
from gateway.rules.route import Patience
from gateway.steering.steering import Steering
from gateway.trace_context import child
from gateway.types import Attempt, Call, Candidate, Context, Finish, Status
from gateway.wire.formats import FORMATS


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all trials of a gateway share. ``gate`` keeps the limits; ``None`` where nothing can be limited.

    ``steering`` is what is learned of success, ``tasks`` keeps their budgets, and ``guardroom`` is where guards are
    heard; ``None`` where nothing does.
    """

    fleet: Fleet
    clock: Clock
    bounds: AnswerBounds
    gate: Gate | None = None
    steering: Steering | None = None
    tasks: TaskAdmission | None = None
    guardroom: Guardroom | None = None


class Turn(Struct, frozen=True, gc=False):
    """Which attempt this is, counted from one, and how many there may be from it on until the request's deadline.

    ``headers`` are what the client is told besides, ``dropped`` the fields that the backend does not get.
    """

    number: int
    left: int
    deadline_s: float
    headers: Sequence[RawHeader] = ()
    dropped: tuple[str, ...] = ()


class Trial:
    """Runs once; ``attempts`` then holds its line for the ledger, however it ended, and ``failure`` its backend's.

    ``turn`` tells which of the request's trials this is; its deadline is on the clock of ``limits``.
    """

    __slots__ = (
        "_backend",
        "_begun",
        "_bench",
        "_candidate",
        "_cost",
        "_ctx",
        "_dropped",
        "_exchange",
        "_flight",
        "_pace",
        "_sink",
        "_started_s",
        "_trace",
        "attempts",
        "failure",
        "number",
    )

    def __init__(
        self,
        bench: Bench,
        limits: TimeLimits,
        *,
        ctx: Context,
        candidate: Candidate,
        backend: Backend,
        exchange: Exchange,
        patience: Patience,
        turn: Turn,
    ) -> None:
        request, facts, started_s = ctx.request, backend.facts(), bench.clock.now_s()
        self.attempts: tuple[Attempt, ...] = ()
        self.failure: UpstreamError | None = None
        self.number = turn.number
        self._bench = bench
        self._ctx = ctx
        self._candidate = candidate
        self._backend = backend
        self._exchange = exchange
        self._begun, self._dropped = False, turn.dropped
        self._trace = child(request.arrival.trace)
        self._started_s = started_s
        self._flight = Flight(bench.fleet, ctx, candidate, facts)
        self._pace = attempt_pace(
            limits, self._flight, patience, deadline_s=turn.deadline_s, request=request, tries_left=turn.left
        )
        self._cost = AttemptCost(request, candidate, facts, bench.fleet.prices, started_s)
        self._sink = (ClientSink if request.units is None else PassingSink)(
            request=request,
            wire=FORMATS[request.arrival.operation],
            exchange=exchange,
            clock=bench.clock,
            headers=Receipt(ctx, candidate, self._cost, turn.number, turn.headers).headers,
            pace=self._pace,
            bounds=bench.bounds,
            prompt_tokens=ctx.forecast.prompt_tokens,
        )

    @property
    def committed(self) -> bool:
        """Whether the client has seen any of the answer."""
        return self._sink.committed

    async def run(self) -> Finish:
        """Makes the attempt.

        Raises:
            UpstreamError: it failed; another backend may help unless ``committed``.
            ClientGone: the client took too long to take it.
            CancelledError: the client left, or this process stops.
        """
        self._begun = True
        try:
            try:
                with self._pace:
                    finish = await self._backend.send(self._call(), self._sink)
            except TimeoutError as error:
                finish = await self._end_late(error)
        except BaseException as error:
            self._close(None, error)
            raise
        self._close(finish, None)
        return finish

    def give_up(self) -> None:
        """Gives its place back where it was never begun: a task that is cancelled before its first step runs none."""
        if not self._begun:
            self._begun = True
            self._land(None, ClientGone("nobody wants it any more"), self._bench.clock.now_s())

    async def _end_late(self, error: TimeoutError) -> Finish:
        """Time is up: whose fault that is, unless all was said and only the connection lingers."""
        if self._pace.client_is_slow:
            raise self._pace.left_by_client() from error
        if self._sink.complete:
            return await self._sink.end()
        raise self._pace.ran_out(self._candidate.backend, self._sink.first_token_s) from error

    def _call(self) -> Call:
        request, forecast = self._ctx.request, self._ctx.forecast
        output_tokens = forecast.output_tokens_p50
        return Call(
            request=request,
            model=self._candidate.model,
            trace=self._trace,
            dropped=self._dropped,
            expected_prompt_tokens=forecast.prompt_tokens,
            expected_output_tokens=max(output_tokens if request.n <= 1 else output_tokens // request.n, 1),
            time_left_s=self._pace.left_s,
            now_s=self._bench.clock.now_s,
        )

    def _close(self, finish: Finish | None, error: BaseException | None) -> None:
        """Writes the attempt's line and gives its place back: neither is lost where the other goes wrong."""
        now_s = self._bench.clock.now_s()
        usage: Usage | None = None
        model = finish.model if finish is not None else self._sink.model
        if isinstance(error, UpstreamError):
            self.failure = error
        try:
            usage = finish.usage if finish is not None and finish.usage is not None else self._counted(error)
            charge = NO_CHARGE if usage is None else self._cost.of(usage, model)
            self.attempts = (self._line(usage, charge, model, error, now_s),)
        finally:
            self._land(usage if finish is not None else None, error, now_s)

    def _land(self, usage: Usage | None, error: BaseException | None, now_s: float) -> None:
        known = error if isinstance(error, HeadraceError) else None
        first_s, last_s = self._sink.first_token_s, self._sink.last_token_s
        self._flight.landed(
            usage=usage,
            decode_s=last_s - first_s if first_s is not None and last_s is not None else None,
            error=known or (ClientGone("cancelled") if error is not None else None),
            now_s=now_s,
        )

    def _line(
        self, usage: Usage | None, charge: Charge, model: str, error: BaseException | None, now_s: float
    ) -> Attempt:
        candidate, sink = self._candidate, self._sink
        line = Attempt(  # with more than 15 keywords a call makes a dict of them
            backend=candidate.backend,
            model=candidate.model,
            status=Status.OK,
            started_s=self._started_s,
            ended_s=now_s,
            span_id=self._trace.span_id,
            first_token_s=sink.first_token_s,
            usage=usage or Usage(),
            cost_usd=charge.usd,
            cost_source=charge.source,
            cost_doubts=charge.doubts,
            answered_model=model if model != candidate.model else "",
            last_token_s=sink.last_token_s,
            bursts=sink.bursts,
            foreseen_usd=None if usage is None or charge.usd is not None else self._foreseen_usd(),
        )
        if error is None:
            return line
        return replace(
            line,
            status=self._status(error),
            error=type(error).__name__,
            detail=str(error) if isinstance(error, HeadraceError) else "",
            upstream_status=error.upstream_status if isinstance(error, UpstreamError) else None,
        )

    def _foreseen_usd(self) -> Decimal | None:
        """What an attempt was expected to cost that does not say what it took."""
        forecast, price = self._ctx.forecast, self._candidate.price
        if price is None or forecast.units is None:
            return None
        return price.cost_usd(Usage(prompt_tokens=forecast.prompt_tokens, units=forecast.units))

    def _counted(self, error: BaseException | None) -> Usage | None:
        """What an attempt used whose upstream does not say, marked so; ``None`` where it refused."""
        if not self._sink.begun and isinstance(error, UpstreamError) and not isinstance(error, UpstreamTimeout):
            return None
        if (units := self._ctx.request.units) is not None:
            return replace(self._sink.usage or Usage(units=units), estimated=True)
        counted = estimate_usage(self._ctx.forecast.prompt_tokens, self._sink.output_bytes)
        if (told := self._sink.usage) is not None:  # it was cut short, and what was told before may not be all
            return replace(told, output_tokens=max(told.output_tokens, counted.output_tokens), estimated=True)
        return counted if self._ctx.request.stream or self._sink.begun else self._imagined(counted)

    def _imagined(self, counted: Usage) -> Usage:
        """A whole answer that was given up unseen: what the backend can have written meanwhile, at its usual speeds."""
        busy_s = self._bench.clock.now_s() - self._started_s
        candidate, request = self._candidate, self._ctx.request
        decoding_s = max(busy_s - counted.prompt_tokens / candidate.prefill_tokens_per_s, 0.0)
        written_tokens = int(decoding_s / candidate.seconds_per_token) * request.n
        most_tokens = written_tokens if request.max_tokens is None else request.max_tokens * request.n
        return replace(counted, output_tokens=min(written_tokens, most_tokens))

    def _status(self, error: BaseException) -> Status:
        cut_short = Status.TRUNCATED if self._sink.committed else None
        if isinstance(error, UpstreamError | GuardBlocked | GuardSilent):
            return cut_short or error.status
        if isinstance(error, ClientGone) or self._exchange.gone:
            return Status.CLIENT_GONE
        if isinstance(error, asyncio.CancelledError):  # this process stops
            return cut_short or Status.REJECTED
        return Status.BUG
