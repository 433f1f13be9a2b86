"""A route that keeps its answers: who asks the same again gets the same again, without an attempt."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gateway.attempt.answer_headers import kept_headers
from gateway.caching.answers import KeptAnswer
from gateway.caching.question import cache_key, is_drawn, why_not_kept
from gateway.caching.use import CacheUse
from gateway.caching.wishes import read_wishes
from gateway.errors import ClientGone
from gateway.exchange import Exchange
from gateway.judging.overheard import Overheard
from gateway.ledger.journal import Journal
from gateway.ports import Clock
from gateway.rules.caching import Caching
from gateway.rules.route import Route
from gateway.rules.world import World
from gateway.types import Attempt, Context, Outcome, Status

_PIECE_BYTES = 64 * 1024
_NOT_WELL = frozenset({"content_filter", "error", "failed", "cancelled", "incomplete"})
"""How an answer ends that another try may answer better."""


@dataclass(slots=True, eq=False)
class Cached:
    """Serves one request of such a route, from its answers or by ``serve``, which gets the exchange to answer on."""

    caching: Caching
    world: World
    route: Route
    ctx: Context
    journal: Journal
    exchange: Exchange
    clock: Clock
    serve: Callable[[Exchange], Awaitable[None]]

    async def run(self) -> None:
        """Serves it.

        Raises:
            HeadraceError: as ``serve`` does.
            ClientGone: the client does not read the answer that was kept for it.
        """
        request, caching = self.ctx.request, self.caching
        wishes = read_wishes(self.exchange.headers)
        if not wishes.store or why_not_kept(request, sampled=caching.sampled):
            self._note(CacheUse.BYPASS)
            await self.serve(self.exchange)
            return
        key = cache_key(request, tenant="" if caching.across_tenants else f"/{request.arrival.tenant}")
        kept = self._find(key, min(wishes.max_age_s, caching.ttl_s)) if wishes.max_age_s else None
        if kept is not None:
            await self._give(kept)
            return
        self._note(CacheUse.MISS if wishes.max_age_s else CacheUse.BYPASS)
        overheard = Overheard(self.exchange, most_bytes=caching.most_answer_bytes)
        await self.serve(overheard)
        self._keep(key, overheard)

    def _note(self, use: CacheUse) -> None:
        self.journal.cache = use
        self.journal.headers = (*self.journal.headers, (b"x-headrace-cache", use.encode()))

    def _find(self, key: bytes, max_age_s: float) -> KeptAnswer | None:
        """The answer, if it is young enough and who gave it is still one of the route's."""
        answers = self.caching.answers
        kept = answers.get(key)
        if kept is None:
            return None
        age_s = self.clock.now_s() - kept.kept_s
        if age_s >= self.caching.ttl_s or self.world.backends.get(kept.name) is not kept.backend:
            answers.forget(key)
            return None
        return kept if age_s < max_age_s else None

    async def _give(self, kept: KeptAnswer) -> None:
        """The answer once more, as it was given before."""
        self._note(CacheUse.HIT)
        self.journal.saved_usd = kept.saved_usd
        headers = kept_headers(self.ctx, kept, age_s=self.clock.now_s() - kept.kept_s, more=self.journal.headers)
        try:
            if self.ctx.request.stream:
                await self._in_pieces(kept.body, headers)
            else:
                async with asyncio.timeout(self.route.patience.client_s):
                    await self.exchange.answer(200, headers, kept.body)
        except TimeoutError as error:
            raise ClientGone("the client left what it was sent unread") from error
        self.journal.outcome = Outcome(status=Status.OK, http_status=200, finish_reason=kept.finish_reason)

    async def _in_pieces(self, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        """A stream, as fast as the client reads it."""
        await self.exchange.open(200, headers)
        for begin in range(0, len(body), _PIECE_BYTES):
            async with asyncio.timeout(self.route.patience.client_s):
                await self.exchange.write(body[begin : begin + _PIECE_BYTES])
        await self.exchange.close()

    def _keep(self, key: bytes, overheard: Overheard) -> None:
        """Keeps what went out, where it was one backend's whole answer and ended well."""
        outcome, heard = self.journal.outcome, overheard.kept
        served = _only_one(self.journal.attempts)
        if outcome is None or outcome.status is not Status.OK or served is None or heard.too_long:
            return
        ends = outcome.finish_reason or not is_drawn(self.ctx.request.arrival.operation)
        if outcome.finish_reason in _NOT_WELL or not ends or not heard.length_bytes:
            return
        dropped = self._dropped(served)
        if dropped is None:
            return
        answer = KeptAnswer(
            body=heard.bytes,
            backend=self.world.backends[served.backend],
            name=served.backend,
            model=served.model,
            finish_reason=outcome.finish_reason,
            saved_usd=served.cost_usd,
            kept_s=self.clock.now_s(),
            dropped=dropped,
        )
        self.caching.answers.put(key, answer)

    def _dropped(self, served: Attempt) -> tuple[str, ...] | None:
        """What of the request its backend did not get; ``None`` where the decision does not have it."""
        order = self.journal.decision.order if self.journal.decision is not None else ()
        found = (bill.candidate for bill in order)
        one = next((it for it in found if (it.backend, it.model) == (served.backend, served.model)), None)
        return None if one is None else self.route.dropped(self.ctx, one)


def _only_one(attempts: list[Attempt]) -> Attempt | None:
    """Who gave all of the answer: of what was gone on with elsewhere, or shown of two, there is none."""
    served = [attempt for attempt in attempts if attempt.status is Status.OK]
    shown = [attempt for attempt in attempts if attempt.first_token_s is not None]
    return served[0] if len(served) == 1 and all(attempt is served[0] for attempt in shown) else None
