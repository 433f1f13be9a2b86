"""What a process that was killed had begun: its requests come on the ledger, by what can still be known of them.

Nobody can say how far such an attempt came. It is put down at what it was expected to take, on the candidate that
would be asked first now, and is marked as an estimate.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec.structs import replace

from gateway.attempt.attempt_cost import AttemptCost
from gateway.attempt.trial import Bench
from gateway.batching.batch import Batch
from gateway.batching.line_book import Try
from gateway.batching.line_exchange import LineExchange
from gateway.batching.line_runner import knock
from gateway.batching.lines import BatchLine
from gateway.decide import decide
from gateway.door import Knock
from gateway.errors import ClientGone, HeadraceError, Rejected
from gateway.ledger.ends import outcome_of
from gateway.ledger.journal import Journal
from gateway.limits.gate import taken
from gateway.limits.limit import Claim
from gateway.pipeline import Rules
from gateway.ports import Ledger
from gateway.price import Usage
from gateway.rules.world import World
from gateway.trace_context import child
from gateway.types import Attempt, Candidate, Context, Status
from gateway.wire.formats import FORMATS

_WORDS = "the gateway was killed while it ran: usage and cost are what was expected of it"


class Abandoned:
    """Puts down what was left.

    Args:
        bench: who could have served it, and whose limits it counts on.
        ledger: where it comes.
        known: whether the ledger has a request of that id already.
    """

    def __init__(self, bench: Bench, ledger: Ledger, known: Callable[[str], Awaitable[bool]]) -> None:
        self._bench = bench
        self._ledger = ledger
        self._known = known

    async def record(self, rules: Rules, batch: Batch, line: BatchLine, begun: Try) -> None:
        """One entry of the request that had begun, unless there is one."""
        if await self._known(begun.request_id):
            return
        clock = self._bench.clock
        exchange = LineExchange(batch.operation, (), line.body)
        came = knock(rules.door, exchange, batch, begun.request_id)
        ago_s = max(clock.unix_s() - begun.begun_unix_s, 0.0)
        arrival = replace(came.arrival, received_s=clock.now_s() - ago_s, received_unix_s=begun.begun_unix_s)
        journal = Journal(arrival)
        journal.outcome = outcome_of(ClientGone(_WORDS))
        try:
            await self._attempt(rules.world, came, journal, line)
        except HeadraceError as error:  # nobody would answer it any more, and so nobody knows who did
            journal.outcome = outcome_of(error)
        self._ledger.record(journal.close(clock.now_s()))

    async def _attempt(self, world: World, came: Knock, journal: Journal, line: BatchLine) -> None:
        if came.refusal is not None:
            raise came.refusal
        request = journal.request = FORMATS[journal.arrival.operation].read(journal.arrival, line.body)
        route = world.match(request.model)
        journal.route = route.name
        journal.forecast = route.forecast(request)
        ctx = route.context(request, journal.forecast)
        decision = decide(route, ctx, self._bench.fleet.snapshot(route, ctx, world.backends))
        asked = [bill.candidate for bill in decision.order] + [out.candidate for out in decision.excluded]
        if asked:
            journal.decision = decision
            journal.attempts = [self._line(world, ctx, asked[0])]
        limits = came.identity.limits + world.tenancy.of_model(request.model)
        if self._bench.gate is not None and limits:
            with suppress(Rejected):  # of a limit that is used up there is nothing to take
                await self._bench.gate.enter(journal.arrival.id, limits, Claim(), lasts_s=1.0)
                self._bench.gate.leave(journal.arrival.id, taken(journal.attempts))

    def _line(self, world: World, ctx: Context, candidate: Candidate) -> Attempt:
        forecast, arrival, now_s = ctx.forecast, ctx.request.arrival, self._bench.clock.now_s()
        usage = Usage(
            prompt_tokens=forecast.prompt_tokens,
            output_tokens=forecast.output_tokens_p50,
            estimated=True,
            units=ctx.request.units,
        )
        facts = world.backends[candidate.backend].facts()
        book = self._bench.fleet.prices
        charge = AttemptCost(ctx.request, candidate, facts, book=book, started_s=arrival.received_s).of(usage)
        return Attempt(
            backend=candidate.backend,
            model=candidate.model,
            status=Status.CLIENT_GONE,
            started_s=arrival.received_s,
            ended_s=now_s,
            span_id=child(arrival.trace).span_id,
            usage=usage,
            cost_usd=charge.usd,
            cost_source=charge.source,
            cost_doubts=charge.doubts,
            error=ClientGone.__name__,
            detail=_WORDS,
        )
