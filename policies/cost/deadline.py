"""What is lost if the answer comes too late."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.types import Candidate, Context

_Z_P90 = 1.2815515655446004
"""How many standard deviations above its median the 90th percentile of a normal distribution lies."""

_LEAST_SPREAD = 0.05
_LEAST_S = 1e-6


@dataclass(frozen=True, kw_only=True)
class Deadline:
    """What is lost if the answer comes too late.

    ::

        usd = usd_per_success x max(p - tolerated, 0) / (1 - tolerated)

    ``p`` is the chance to miss the request's deadline at the candidate: that of the first token or that of the whole
    answer, whichever is likelier to be missed. Times are taken to be log-normal, through the median and the 90th
    percentile that are expected there: of the first token from what waits, what is to be read and how far such
    forecasts were off so far; of the whole answer from that and the forecast of its length at the present speed.

    Deadlines count from the request's arrival. They come from the route (``deadline: {first_token_s: 2, total_s: 30}``)
    and from the client (``x-headrace-deadline-ms``, for the whole answer); of two the earlier holds. Without any,
    nothing is lost. With one, a request goes to a paid backend when it would miss its deadline on your own machines
    more often than ``tolerated`` and the answer is worth more than it costs: the others stay.

    Attributes:
        tolerated: the chance to be late that costs nothing. 0.1 offloads what would be late at its 90th percentile,
            0.2 what would be at its 80th.

    Example::

        cost:
          - {use: deadline, tolerated: 0.1}
    """

    tolerated: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.tolerated < 1:
            raise ValueError(f"`tolerated` must be from 0 to below 1, and is {self.tolerated}")

    def usd(self, ctx: Context, candidate: Candidate) -> float:
        """US dollars that a missed deadline costs, times how much likelier than tolerated it is."""
        deadline = ctx.deadline
        if deadline is None:
            return 0.0
        p50_s, p90_s = candidate.first_token_p50_s, candidate.first_token_p90_s
        missed = 0.0 if deadline.first_token_s is None else _chance_later(deadline.first_token_s, p50_s, p90_s)
        if deadline.total_s is not None:
            step_s = candidate.seconds_per_token / max(ctx.request.n, 1)
            p50_s += ctx.forecast.output_tokens_p50 * step_s
            p90_s += ctx.forecast.output_tokens_p90 * step_s
            missed = max(missed, _chance_later(deadline.total_s, p50_s, p90_s))
        return ctx.worth.usd_per_success * max(missed - self.tolerated, 0.0) / (1 - self.tolerated)

    def usd_each(self, ctx: Context, candidates: Sequence[Candidate]) -> list[float]:
        """The same for all candidates."""
        if ctx.deadline is None:
            return [0.0] * len(candidates)
        return [self.usd(ctx, candidate) for candidate in candidates]


def _chance_later(limit_s: float, p50_s: float, p90_s: float) -> float:
    """How likely what takes ``p50_s`` or less half of the time, and ``p90_s`` nine times of ten, takes longer."""
    if limit_s <= 0:
        return 1.0
    median_s = max(p50_s, _LEAST_S)
    spread = max(math.log(max(p90_s, median_s) / median_s) / _Z_P90, _LEAST_SPREAD)
    return 0.5 * math.erfc((math.log(limit_s) - math.log(median_s)) / spread / math.sqrt(2))
