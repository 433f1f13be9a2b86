"""What is lost if the candidate fails."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.types import Candidate, Context


@dataclass(frozen=True, kw_only=True)
class Risk:
    """What is lost if the candidate fails.

    ::

        usd = failure_rate x usd_per_success

    ``failure_rate`` is the share of recent attempts there that failed, 0 to 1. It fades by itself, so that a candidate
    that nobody tries for fear of it becomes worth a try again.

    Example::

        cost:
          - risk
    """

    def usd(self, ctx: Context, candidate: Candidate) -> float:
        """US dollars that a failure costs, times how likely it is."""
        return candidate.failure_rate * ctx.worth.usd_per_success

    def usd_each(self, ctx: Context, candidates: Sequence[Candidate]) -> list[float]:
        """The same for all candidates."""
        usd_per_success = ctx.worth.usd_per_success
        return [candidate.failure_rate * usd_per_success for candidate in candidates]
