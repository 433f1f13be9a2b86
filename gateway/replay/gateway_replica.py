"""One replica of the gateway in a replay: the fleet's view and the policies that decide in earnest."""

from dataclasses import dataclass
from decimal import Decimal
from time import process_time_ns

from gateway.decide import decide
from gateway.errors import ConfigurationError
from gateway.fleet.fleet import Fleet
from gateway.fleet.flight import Flight
from gateway.ports import Observer
from gateway.price import Usage
from gateway.replay.engine import Job
from gateway.replay.prediction import Predictor
from gateway.replay.scene import Scene
from gateway.replay.sketch import Sketch
from gateway.replay.trace import TraceRequest
from gateway.types import Attempt, Candidate, Context, LedgerEntry, Outcome, Status


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sending:
    """A request on its way: what was believed of it, and where it went."""

    ctx: Context
    candidate: Candidate
    flight: Flight


class GatewayReplica:
    """Decides as ``gateway.pipeline`` does, and is told of first tokens and ends as its backends would tell it."""

    def __init__(self, scene: Scene, fleet: Fleet, *, predictor: Predictor, observers: tuple[Observer, ...]) -> None:
        self._scene = scene
        self._predictor = predictor
        self._observers = observers
        self._fleet = fleet
        self.decide_us = Sketch()

    def send(self, traced: TraceRequest) -> Sending:
        """Forecasts, looks, decides and dispatches.

        Raises:
            ConfigurationError: the policy sends the request nowhere.
        """
        route, backends = self._scene.route, self._scene.backends
        started_ns = process_time_ns()
        forecast = self._predictor.forecast(traced)
        ctx = route.context(traced.request, forecast)
        decision = decide(route, ctx, self._fleet.snapshot(route, ctx, backends))
        if not decision.order:
            reasons = "; ".join(f"{out.candidate.backend}: {out.reason}" for out in decision.excluded)
            fault = f"route `{route.name}` sends {traced.request.arrival.id} nowhere ({reasons})"
            raise ConfigurationError(fault, hint="a replay has no place for requests that are refused")
        candidate = decision.order[0].candidate
        flight = Flight(self._fleet, ctx, candidate, backends[candidate.backend].facts())
        self.decide_us.add((process_time_ns() - started_ns) / 1000)
        return Sending(ctx=ctx, candidate=candidate, flight=flight)

    def first_token(self, sending: Sending, now_s: float) -> None:
        """The engine has written the first token."""
        sending.flight.first_token(now_s)

    def landed(self, sending: Sending, job: Job) -> Decimal | None:
        """The engine has written the last token; what the answer costs, where a price is known."""
        usage = Usage(prompt_tokens=job.prompt_tokens, output_tokens=job.output_tokens, cached_tokens=job.cached_tokens)
        decode_s = job.finished_s - job.first_token_s
        sending.flight.landed(usage=usage, decode_s=decode_s, error=None, now_s=job.finished_s)
        price = sending.candidate.price
        cost_usd = price.cost_usd(usage) if price else None
        if self._observers:
            entry = _entry(self._scene.route.name, sending, job, usage, cost_usd)
            for observer in self._observers:
                observer.observe(entry)
        return cost_usd


def _entry(route: str, sending: Sending, job: Job, usage: Usage, cost_usd: Decimal | None) -> LedgerEntry:
    request, candidate = sending.ctx.request, sending.candidate
    attempt = Attempt(
        backend=candidate.backend,
        model=candidate.model,
        status=Status.OK,
        started_s=job.arrived_s,
        ended_s=job.finished_s,
        span_id=request.arrival.trace.span_id,
        first_token_s=job.first_token_s,
        usage=usage,
        cost_usd=cost_usd,
    )
    return LedgerEntry(
        arrival=request.arrival,
        request=request,
        route=route,
        forecast=sending.ctx.forecast,
        decision=None,
        attempts=(attempt,),
        outcome=Outcome(status=Status.OK, http_status=200, finish_reason="stop"),
        ended_s=job.finished_s,
    )
