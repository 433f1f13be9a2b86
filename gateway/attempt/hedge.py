"""Hedging: a second backend is asked as well where the first one is late, and whoever answers first answers the client.

It ends where the client sees something: the first of the two that has anything to show takes the client's exchange, and
the other is cancelled at once. Both are on the ledger, each with its price.
"""

import asyncio
from collections.abc import Awaitable, Callable
from math import exp, log
from statistics import NormalDist
from typing import Protocol

from msgspec.structs import replace

from gateway.errors import ClientGone, HeadraceError, UpstreamError
from gateway.exchange import Exchange, RawHeaders, Through
from gateway.rules.route import Hedge
from gateway.types import Attempt, Bill, Candidate, ChatRequest, Context, Finish

_BURST = 3.0
"""So many requests may be hedged in a row before the shares count."""

_Z_P90 = NormalDist().inv_cdf(0.9)
_LEAST_S = 1e-3
_NO = b'"no"'


class Outrun(ClientGone):
    """Another backend began to answer first."""


class Runner(Protocol):
    """An attempt: ``gateway.attempt.trial.Trial``."""

    attempts: tuple[Attempt, ...]

    async def run(self) -> Finish:
        """Makes the attempt."""
        ...


class Side(Through):
    """The client's exchange as one of two racers sees it: the first that writes has it, the other has nobody."""

    def __init__(self, race: "Race", exchange: Exchange) -> None:
        super().__init__(exchange)
        self._race = race

    @property
    def gone(self) -> bool:
        """Whether nobody listens any more: the client has left, or listens to the other."""
        return self._exchange.gone or self._race.lost(self)

    @property
    def started(self) -> bool:
        """Whether this one has sent a status line."""
        return self._exchange.started and self._race.winner is self

    @property
    def streaming(self) -> bool:
        """Whether this one is in the middle of a stream."""
        return self._exchange.streaming and self._race.winner is self

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """See ``Exchange.answer``."""
        self._race.claim(self)
        await self._exchange.answer(status, headers, body)

    async def open(self, status: int, headers: RawHeaders) -> None:
        """See ``Exchange.open``."""
        self._race.claim(self)
        await self._exchange.open(status, headers)


class Race:
    """Two attempts for one client. ``winner`` is who has shown something; ``attempts`` are their lines, in order."""

    def __init__(self, exchange: Exchange) -> None:
        self.winner: Side | None = None
        self._exchange = exchange
        self._runners: list[Runner] = []
        self._tasks: dict[asyncio.Task[Finish], Side] = {}

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The lines for the ledger. Of the one that was outrun its line says so."""
        lines = []
        for runner, side in zip(self._runners, self._tasks.values(), strict=True):
            for line in runner.attempts:
                outrun = self.lost(side) and line.error == asyncio.CancelledError.__name__
                words = str(Outrun.__doc__)
                lines.append(replace(line, error=Outrun.__name__, detail=words) if outrun else line)
        return tuple(lines)

    def side(self) -> Side:
        """An exchange for one of the two."""
        return Side(self, self._exchange)

    def lost(self, side: Side) -> bool:
        """Whether the client listens to another."""
        return self.winner is not None and self.winner is not side

    def claim(self, side: Side) -> None:
        """The side has something to show: from now on the client is its own, and the other one stops.

        Raises:
            Outrun: the other was first.
        """
        if self.lost(side):
            raise Outrun("another backend began to answer first")
        if self.winner is None:
            self.winner = side
            for task, other in self._tasks.items():
                if other is not side:
                    task.cancel()

    async def run(
        self,
        first: tuple[Runner, Side],
        *,
        wait_s: float,
        second: Callable[[], Awaitable[tuple[Runner, Side] | None]],
    ) -> Finish:
        """Runs the first attempt, and after ``wait_s`` without anything to show the second beside it.

        Raises:
            UpstreamError: both failed, or the one that the client listens to did.
            ClientGone: the client took too long.
            CancelledError: the client left, or this process stops; neither runs any longer then.
        """
        try:
            self._begin(*first)
            done, _ = await asyncio.wait(self._tasks, timeout=wait_s)
            if not done and self.winner is None:
                other = await second()
                if other is not None and self.winner is None:  # the first may have begun to answer meanwhile
                    self._begin(*other)
            return await self._finish()
        finally:
            running = [task for task in self._tasks if not task.done()]
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running)

    def _begin(self, runner: Runner, side: Side) -> None:
        self._runners.append(runner)
        self._tasks[asyncio.get_running_loop().create_task(runner.run(), name="headrace-hedge")] = side

    async def _finish(self) -> Finish:
        failure: BaseException | None = None
        running = set(self._tasks)
        while running:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if self.lost(self._tasks[task]) or task.cancelled():
                    continue
                error = task.exception()
                if error is None:
                    return task.result()
                failure = error
                if self.winner is not None or not (isinstance(error, UpstreamError) and error.retryable):
                    raise error  # what the client has seen the beginning of, or what no other backend would mend
        raise failure or HeadraceError("an attempt was cancelled from outside")


class Hedger:
    """Whether, when and whom else to ask, for one route: within its shares of all requests and of all that they cost.

    A request earns ``most_requests`` of a second attempt, and ``most_spend`` of its own expected bill, time included,
    towards what second attempts are charged by their backends. A few are allowed before anything is earned.
    """

    def __init__(self, hedge: Hedge) -> None:
        self._hedge = hedge
        self._z = NormalDist().inv_cdf(hedge.quantile)
        self._attempts = _BURST
        self._earned_usd = 0.0

    def earn(self, bill: Bill) -> None:
        """A request is on its way at this bill."""
        self._attempts = min(self._attempts + self._hedge.most_requests, _BURST)
        self._earned_usd += self._hedge.most_spend * bill.total_usd

    def wait_s(self, ctx: Context, candidate: Candidate, *, elapsed_s: float) -> float:
        """How long the candidate may take, from now, before another is asked: the quantile of what was expected of it.

        Of the first token for a stream, of the whole answer otherwise; log-normal through median and 90th percentile.
        """
        p50_s, p90_s = candidate.first_token_p50_s, candidate.first_token_p90_s
        if not ctx.request.stream:
            step_s = candidate.seconds_per_token / max(ctx.request.n, 1)
            p50_s += ctx.forecast.output_tokens_p50 * step_s
            p90_s += ctx.forecast.output_tokens_p90 * step_s
        median_s = max(p50_s, _LEAST_S)
        spread = log(max(p90_s, median_s) / median_s) / _Z_P90
        return max(median_s * exp(self._z * spread) - elapsed_s, 0.0)

    def spend(self, ctx: Context, candidate: Candidate) -> bool:
        """Whether the candidate may be asked as well; it is paid for then. A price that is not known is no budget."""
        if self._attempts < 1 or candidate.price is None or candidate.down is not None:
            return False
        usd = _expected_usd(ctx, candidate)
        if usd > self._earned_usd:
            return False
        self._attempts -= 1
        self._earned_usd -= usd
        return True


def may_hedge(request: ChatRequest) -> bool:
    """Whether asking twice is harmless: text that is not stored, and ``metadata`` does not say ``"hedge": "no"``."""
    if request.units is not None:
        return False
    if bytes(request.raw.get("store", b"false")) == b"true":
        return False
    metadata = bytes(request.raw.get("metadata", b"{}"))
    return not (b'"hedge"' in metadata and _NO in metadata)


def _expected_usd(ctx: Context, candidate: Candidate) -> float:
    price, forecast = candidate.price, ctx.forecast
    if price is None:
        return float("inf")
    usd = forecast.prompt_tokens * price.input_usd_per_mtok + forecast.output_tokens_p50 * price.output_usd_per_mtok
    return float(usd) / 1e6 + float(price.request_usd)
