"""One attempt on one backend: its clock, its sink, its place in the fleet, and its line on the ledger."""

import asyncio
from dataclasses import dataclass
from decimal import Decimal

from msgspec.structs import replace

from gateway.answer_headers import answer_headers
from gateway.errors import ClientGone, HeadraceError, UpstreamError, UpstreamTimeout
from gateway.exchange import Exchange
from gateway.fleet import Fleet, Flight
from gateway.ports import Backend, Clock
from gateway.route import Patience
from gateway.sink import AnswerBounds, ClientSink
from gateway.time_limit import TimeLimit
from gateway.trace_context import child
from gateway.types import Attempt, Call, Candidate, Context, Finish, Status, Usage
from gateway.wire.format import estimate_output
from gateway.wire.formats import FORMATS


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all trials of a gateway share."""

    fleet: Fleet
    clock: Clock
    bounds: AnswerBounds


class Trial:
    """Runs once; ``attempts`` then holds its line for the ledger, however it ended.

    ``deadline_s`` is the request's, on the event loop's clock: the trials of a request share it. ``number`` counts
    them from one.
    """

    def __init__(
        self,
        bench: Bench,
        *,
        ctx: Context,
        candidate: Candidate,
        backend: Backend,
        exchange: Exchange,
        patience: Patience,
        deadline_s: float,
        number: int,
    ) -> None:
        self.attempts: tuple[Attempt, ...] = ()
        self._bench = bench
        self._ctx = ctx
        self._candidate = candidate
        self._backend = backend
        self._exchange = exchange
        self._patience = patience
        self._deadline_s = deadline_s
        self._trace = child(ctx.request.arrival.trace)
        self._started_s = bench.clock.now_s()
        self._limit: TimeLimit | None = None
        self._client_is_slow = False
        self._flight = Flight(bench.fleet, ctx, candidate, backend.facts())
        self._sink = ClientSink(
            request=ctx.request,
            wire=FORMATS[ctx.request.arrival.operation],
            exchange=exchange,
            clock=bench.clock,
            headers=lambda usage: answer_headers(ctx, candidate, attempt=number, usage=usage),
            pace=self,
            bounds=bench.bounds,
            estimate=self._estimated,
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
        finish: Finish | None = None
        error: BaseException | None = None
        try:
            finish = await self._send()
        except BaseException as caught:
            error = caught
            raise
        finally:
            self.attempts = (self._close(finish, error),)
        return finish

    async def _send(self) -> Finish:
        call = Call(request=self._ctx.request, model=self._candidate.model, trace=self._trace)
        try:
            async with TimeLimit(self._first_limit_s()) as self._limit:
                return await self._backend.send(call, self._sink)
        except TimeoutError as error:
            if self._client_is_slow:
                raise ClientGone(f"the client did not take its answer within {self._patience.total_s:g} s") from error
            if self._sink.complete:  # all was said; only the connection lingers
                return await self._sink.end()
            raise UpstreamTimeout(f"{self._candidate.backend} {self._silence()}") from error

    def _first_limit_s(self) -> float:
        """When to give up on the first sign: of a stream its first token, of a whole answer all of it."""
        if not self._ctx.request.stream:
            return self._deadline_s
        return min(self._deadline_s, asyncio.get_running_loop().time() + self._patience.first_token_s)

    def waits_for_client(self) -> None:
        """See ``Pace``: only the deadline runs."""
        if self._sink.first_token_s is not None:
            self._flight.first_token(self._sink.first_token_s)
        self._client_is_slow = True
        self._move_limit(self._deadline_s)

    def waits_for_upstream(self) -> None:
        """See ``Pace``: the next piece must come before the idle limit."""
        self._client_is_slow = False
        self._move_limit(min(self._deadline_s, asyncio.get_running_loop().time() + self._patience.idle_s))

    def _move_limit(self, due_s: float) -> None:
        if self._limit is not None:
            self._limit.move(due_s)

    def _silence(self) -> str:
        if asyncio.get_running_loop().time() >= self._deadline_s:
            return f"did not finish within {self._patience.total_s:g} s"
        if self._sink.first_token_s is None:
            return f"sent no token within {self._patience.first_token_s:g} s"
        return f"fell silent for {self._patience.idle_s:g} s"

    def _close(self, finish: Finish | None, error: BaseException | None) -> Attempt:
        now_s = self._bench.clock.now_s()
        usage = self._usage(finish, error)
        known = error if isinstance(error, HeadraceError) else None
        first_s, last_s = self._sink.first_token_s, self._sink.last_token_s
        self._flight.landed(
            usage=usage if finish else None,
            decode_s=last_s - first_s if first_s is not None and last_s is not None else None,
            error=known or (ClientGone("cancelled") if error is not None else None),
            now_s=now_s,
        )
        return Attempt(
            backend=self._candidate.backend,
            model=self._candidate.model,
            status=self._status(error),
            started_s=self._started_s,
            ended_s=now_s,
            span_id=self._trace.span_id,
            first_token_s=first_s,
            usage=usage or Usage(),
            cost_usd=self._cost_usd(usage),
            error=type(error).__name__ if error is not None else "",
            detail=str(error) if known is not None else "",
            upstream_status=error.upstream_status if isinstance(error, UpstreamError) else None,
        )

    def _usage(self, finish: Finish | None, error: BaseException | None) -> Usage | None:
        """What the attempt used: as the upstream says, else counted by us and marked so; ``None`` where it refused."""
        if finish is not None and finish.usage is not None:
            return finish.usage
        if not self._sink.begun and isinstance(error, UpstreamError) and not isinstance(error, UpstreamTimeout):
            return None
        return self._estimated(self._sink.output_bytes)

    def _estimated(self, output_bytes: int) -> Usage:
        return replace(estimate_output(output_bytes), prompt_tokens=self._ctx.forecast.prompt_tokens)

    def _cost_usd(self, usage: Usage | None) -> Decimal | None:
        if usage is None:
            return Decimal(0)
        return self._candidate.price.cost_usd(usage) if self._candidate.price else None

    def _status(self, error: BaseException | None) -> Status:
        cut_short = Status.TRUNCATED if self._sink.committed else None
        if error is None:
            return Status.OK
        if isinstance(error, UpstreamError):
            return cut_short or error.status
        if isinstance(error, ClientGone) or self._exchange.gone:
            return Status.CLIENT_GONE
        if isinstance(error, asyncio.CancelledError):  # this process stops
            return cut_short or Status.REJECTED
        return Status.BUG
