"""A request before its guards: what goes in and what comes out, whoever serves it.

Guards before it look once its limits have let it in, so that nobody makes them work who has no right to. What they
change is changed for everybody after them: forecast, cache, backends, judges, the copy of a shadow, the ledger. Guards
after it stand right before the client: they see what goes out, whether it comes from a backend, a cascade, two of them
that raced, or a cache.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from msgspec.structs import replace

from gateway.attempt.trial import Bench
from gateway.errors import GuardBlocked, GuardSilent, HeadraceError
from gateway.exchange import Exchange
from gateway.guarding.guarded_answer import GuardedAnswer
from gateway.guarding.hearing import Hearing
from gateway.guarding.told import with_marks
from gateway.guarding.whole_texts import body_with, request_texts
from gateway.ledger.journal import Journal
from gateway.rules.guards import Guards
from gateway.rules.route import Route
from gateway.types import ChatRequest, Context, Outcome, Status
from gateway.wire.guarded_formats import answers_in_words


@dataclass(slots=True, eq=False)
class Guarded:
    """Serves one request behind ``guards``.

    ``understand`` makes a request of a body that guards have changed; ``serve`` serves what passes, on the exchange
    that it is given.
    """

    bench: Bench
    guards: Guards
    route: Route
    journal: Journal
    exchange: Exchange
    understand: Callable[[Journal, bytes], ChatRequest]
    serve: Callable[[Context, Journal, Exchange], Awaitable[None]]

    async def run(self, ctx: Context) -> None:
        """Serves it.

        Raises:
            GuardBlocked: a guard does not let it pass, or its answer before any of it was shown.
            GuardSilent: likewise, for want of a guard that could look.
            HeadraceError: as ``serve`` does.
        """
        if self.bench.guardroom is None:
            raise RuntimeError("a route has guards, and there is no place to hear them")
        hearing = Hearing(self.bench.guardroom, ctx.request, self.exchange.headers)
        try:
            await self._before(hearing)
            if hearing.request is not ctx.request:
                ctx = self._anew(ctx, hearing.request)
            self.journal.headers = with_marks(self.journal.headers, hearing.marks)
            if self.guards.after and answers_in_words(self.exchange.operation):
                await self._with_answer(ctx, hearing)
            else:
                await self.serve(ctx, self.journal, self.exchange)
        finally:
            self.journal.guards = tuple(hearing.marks)
            self.journal.headers = with_marks(self.journal.headers, hearing.marks)

    def _anew(self, ctx: Context, request: ChatRequest) -> Context:
        """What the policies see of a request that guards have changed; nobody sees the other one from here on."""
        self.journal.request = request
        forecast = self.journal.forecast = self.route.forecast(request)
        return self.route.context(request, forecast, priced_only=ctx.priced_only)

    async def _before(self, hearing: Hearing) -> None:
        texts = None
        for rule in self.guards.before:
            texts = texts or request_texts(hearing.request)
            said = await hearing.on_request(rule, texts.transcript.texts, why_not=texts.unreadable)
            edits = texts.edits(said) if said is not None else {}
            if edits:
                hearing.request = self.understand(self.journal, body_with(hearing.request, edits))
                texts = None

    async def _with_answer(self, ctx: Context, hearing: Hearing) -> None:
        """Serves it on an exchange that guards look over; a response is kept as the client got it, or not at all."""
        remembered = ctx.request.remembered
        keep = remembered.keep if remembered is not None else None
        if remembered is not None and keep is not None:
            ctx = replace(ctx, request=replace(ctx.request, remembered=replace(remembered, keep=_not_yet)))
        guarded = GuardedAnswer(self.exchange, self.guards.after, hearing)
        try:
            await self.serve(ctx, self.journal, guarded)
        except (GuardBlocked, GuardSilent) as error:
            self._blocked(error, guarded)
            return
        except HeadraceError:
            await guarded.cut_short()
            raise
        if guarded.refused is not None:
            self._blocked(guarded.refused, guarded)
            return
        if keep is not None and guarded.finished is not None:
            keep(guarded.finished)
        if guarded.holds and ctx.request.stream and self.journal.outcome is not None:
            self.journal.outcome = replace(self.journal.outcome, shown_s=self.bench.clock.now_s())

    def _blocked(self, error: GuardBlocked | GuardSilent, guarded: GuardedAnswer) -> None:
        """A stream that was shown in part has been ended as one that a filter stopped; else the client is told.

        Raises:
            GuardBlocked: it has not been told yet; or ``GuardSilent``.
        """
        if not guarded.cut:
            raise error
        self.journal.outcome = Outcome(
            status=Status.REJECTED,
            http_status=200,
            finish_reason="content_filter",
            error=type(error).__name__,
            detail=error.message,
        )


def _not_yet(response: bytes) -> None:
    """What a backend said is kept once it has passed the guards, as it then is."""
