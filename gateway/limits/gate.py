"""Where requests meet their limits: what one may take is reserved before, what it took is settled after."""

from collections.abc import Sequence
from decimal import Decimal
from math import inf

from gateway.caching.use import CacheUse
from gateway.errors import Overloaded
from gateway.forecast import Forecast
from gateway.guard_mark import Action
from gateway.ledger.journal import Journal
from gateway.limits.borrower import Borrower
from gateway.limits.limit import NANO, Claim, Limit
from gateway.limits.rate_headers import RawHeader, rate_headers
from gateway.limits.refusal import refusal
from gateway.limits.template_overhead import TemplateOverhead
from gateway.ports import Clock
from gateway.price import Usage
from gateway.types import Attempt, Candidate

_LOST_RETRY_S = 2.0
_SLACK_S = 30.0
"""A reservation outlives its request's deadline by so much: it is there for what nobody ended, not to end anything."""


class Gate:
    """Reserves by a name, of which each step may be told twice: a request's id, or an attempt's.

    ``overhead`` is what chat templates add to prompts, so that as much is reserved.
    """

    def __init__(self, borrower: Borrower, *, clock: Clock) -> None:
        self.borrower = borrower
        self.overhead = TemplateOverhead()
        self._clock = clock

    async def enter(self, name: str, limits: Sequence[Limit], claim: Claim, *, lasts_s: float) -> None:
        """Reserves ``claim`` on all limits.

        Raises:
            LimitExceeded: the tenant's own limit refuses; nothing is held.
            Overloaded: one of ours; or what was borrowed is used up and the accounts cannot be reached.
        """
        short = await self.borrower.reserve(name, claim, limits, lasts_s=lasts_s + _SLACK_S)
        if short and self.borrower.lost:
            raise Overloaded("the limits cannot be checked now", retry_after_s=_LOST_RETRY_S)
        if short:
            unix_s = self._clock.unix_s()
            refusals = [refusal(one, claim.of(one.limit.measure), unix_s=unix_s) for one, _ in short]
            # The one that takes longest to come back speaks: before that, another refusal would follow.
            raise max(refusals, key=lambda error: inf if error.retry_after_s is None else error.retry_after_s)

    def leave(self, name: str, used: Claim) -> None:
        """It is over and took this much; what was reserved beyond it is free again. A second time is nothing."""
        self.borrower.book.settle(name, used)

    def headers(self, limits: Sequence[Limit]) -> tuple[RawHeader, ...]:
        """How these limits stand, for the client."""
        unix_s = self._clock.unix_s()
        return rate_headers([self.borrower.book.allowance(limit, unix_s) for limit in limits], unix_s=unix_s)


def expected(forecast: Forecast, usd: Decimal) -> Claim:
    """What a request may take: the length that nine in ten answers stay within, and so much money."""
    return Claim(
        requests=1,
        input_tokens=forecast.prompt_tokens,
        output_tokens=forecast.output_tokens_p90 if forecast.units is None else forecast.units.output_image_tokens,
        nano_usd=_nano(usd),
        concurrent=1,
    )


def dearest_usd(forecast: Forecast, candidates: Sequence[Candidate], *, output_tokens: int | None = None) -> Decimal:
    """The dearest of the candidates' prices for the forecast; those without a price count nothing.

    For ``output_tokens``, or as many as nine in ten answers stay within.
    """
    longest = forecast.output_tokens_p90 if output_tokens is None else output_tokens
    usage = Usage(prompt_tokens=forecast.prompt_tokens, output_tokens=longest, units=forecast.units)
    return max((one.price.cost_usd(usage) for one in candidates if one.price is not None), default=Decimal(0))


def taken(attempts: Sequence[Attempt]) -> Claim:
    """What a request took, over all its attempts: the abandoned ones too. Without an attempt, nothing.

    Of one whose cost nobody knows it is what was reserved: whoever asks for an answer that does not say how much it
    took (a transcript as text, say) is not free of limits.
    """
    if not attempts:
        return Claim()
    usages = [attempt.usage for attempt in attempts if attempt.usage is not None]
    return Claim(
        requests=1,
        input_tokens=sum(max(usage.prompt_tokens, 0) for usage in usages),
        output_tokens=sum(max(usage.output_tokens, 0) for usage in usages),
        nano_usd=_nano(sum((_counted_usd(one) for one in attempts), Decimal(0))),
    )


def taken_by(journal: Journal) -> Claim:
    """What a request took; an answer from a cache, and what a guard does not let in, is a request and nothing else."""
    if not journal.attempts and any(mark.action is Action.BLOCK for mark in journal.guards):
        return Claim(requests=1)
    return Claim(requests=1) if journal.cache == CacheUse.HIT else taken(journal.attempts)


def _counted_usd(attempt: Attempt) -> Decimal:
    usd = attempt.foreseen_usd if attempt.cost_usd is None else attempt.cost_usd
    return Decimal(0) if usd is None else usd


def _nano(usd: Decimal) -> int:
    return int((usd * NANO).to_integral_value(rounding="ROUND_UP"))
