"""What is lost if the candidate fails."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.conversation import prompt_count
from gateway.types import Candidate, Context


@dataclass(frozen=True, kw_only=True)
class Risk:
    """What is lost if the candidate fails.

    ::

        usd = failure_rate x usd_per_success
        usd = usd_per_success    where as much as this request needs was too long for its window lately

    ``failure_rate`` is the share of recent attempts there that failed, 0 to 1. It fades by itself, so that a candidate
    that nobody tries for fear of it becomes worth a try again.

    Example::

        cost:
          - risk
    """

    def usd(self, ctx: Context, candidate: Candidate) -> float:
        """US dollars that a failure costs, times how likely it is."""
        return _chance(ctx, candidate) * ctx.worth.usd_per_success

    def usd_each(self, ctx: Context, candidates: Sequence[Candidate]) -> list[float]:
        """The same for all candidates."""
        usd_per_success = ctx.worth.usd_per_success
        return [_chance(ctx, candidate) * usd_per_success for candidate in candidates]


def _chance(ctx: Context, candidate: Candidate) -> float:
    refused_tokens = candidate.too_long_tokens
    if refused_tokens is None:
        return candidate.failure_rate
    request = ctx.request
    needed_tokens = ctx.forecast.prompt_tokens // prompt_count(request.prompt) + (request.max_tokens or 1)
    return 1.0 if needed_tokens >= refused_tokens else candidate.failure_rate
