"""What is done once a client has its answer: judging it, and sending a copy of the request elsewhere."""

from collections.abc import Iterable

from msgspec.structs import replace

from gateway.attempt.cascade import Cascade
from gateway.attempt.failover import Failover
from gateway.attempt.shadow import Shadows
from gateway.attempt.trial import Bench
from gateway.exchange import Exchange
from gateway.judgement import Occasion
from gateway.judging.court import Court
from gateway.judging.docket import Case, Docket, JudgedSink, Note
from gateway.judging.draft import draft, served_attempt
from gateway.judging.inquiries import Connect, Inquiries, Secret
from gateway.judging.overheard import Overheard
from gateway.ledger.journal import Journal
from gateway.rules.judging import drawn
from gateway.rules.route import Route
from gateway.types import Context, Decision
from gateway.wire.answers import can_be_judged


class Afterwards:
    """For all routes that judge answers or have a shadow; on the others nobody asks it."""

    def __init__(self, docket: Docket, shadows: Shadows) -> None:
        self.docket = docket
        self.shadows = shadows

    async def attempt(self, loop: Failover, decision: Decision) -> None:
        """Serves a request by its cascade, or by the loop alone; and what is to come after its answer is begun.

        Raises:
            HeadraceError: as the loop does.
        """
        route, ctx, journal = loop.route, loop.ctx, loop.journal
        heard = self._overhear(route, ctx, loop.exchange)
        loop.exchange = heard or loop.exchange
        if route.cascade and can_be_judged(ctx.request.arrival.operation):
            await Cascade(loop, self.docket).run(decision)
        else:
            await loop.run(decision)
        if heard is not None:
            self._put(route, ctx, journal, heard)
        if route.shadow is not None and can_be_judged(ctx.request.arrival.operation):
            self.shadows.send(loop.world, route, ctx, loop.limits)

    async def close(self) -> None:
        """Ends the shadows and lets the judges come to their ends; idempotent."""
        await self.shadows.close()
        await self.docket.close()

    def _overhear(self, route: Route, ctx: Context, exchange: Exchange) -> Overheard | None:
        """The exchange with an ear in it, where the answer to this request is to be judged."""
        arrival, judging = ctx.request.arrival, route.judging
        if judging is None or not can_be_judged(arrival.operation) or not drawn(arrival.id, "judge", judging.sample):
            return None
        return Overheard(exchange)

    def _put(self, route: Route, ctx: Context, journal: Journal, heard: Overheard) -> None:
        served, kept = served_attempt(journal.attempts), heard.kept
        if route.judging is None or served is None:
            return
        made = draft(journal, Occasion.SERVED, *served)
        if kept.too_long:
            self.docket.record(replace(made, judgement=kept.not_judged))
            return
        read = kept.reader(heard.operation, served[1].usage)
        self.docket.put(
            Case(judging=route.judging, request=ctx.request, read=read, length_bytes=kept.length_bytes, draft=made)
        )


def open_afterwards(
    bench: Bench, *, connect: Connect, secret: Secret, sinks: Iterable[object], note: Note | None = None
) -> Afterwards:
    """With judges who ask others over connections of ``connect``, with keys that ``secret`` knows.

    Those of ``sinks`` that take judged answers are told of them, and ``note`` of what is skipped.
    """
    docket = Docket(Court(Inquiries(connect, secret)), clock=bench.clock)
    docket.tell(*[sink for sink in sinks if isinstance(sink, JudgedSink)], note=note)
    return Afterwards(docket, Shadows(bench, docket))
