"""How long the candidate would read the part of the prompt that it does not hold yet."""

import math
from dataclasses import dataclass

from gateway.types import Candidate, Context


@dataclass(frozen=True, kw_only=True)
class Prefill:
    """How long the candidate would read the part of the prompt that it does not hold yet.

    ::

        usd = (1 + mu) x (prompt_tokens - warm_tokens) / prefill_tokens_per_s x usd_per_second

    The 1 is this request's own wait. ``mu`` is what its reading costs everybody else there: the requests behind it and
    the ones being written, which stand still meanwhile. At 0 the request looks for its own good alone and prefixes
    scatter over all replicas; values of 1 to 2 gather them, and from 4 on a warm cache wins against an idle machine.

    Attributes:
        mu: how much the time taken from others counts, against the request's own.

    Example::

        cost:
          - {use: prefill, mu: 1.0}
    """

    mu: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.mu < math.inf:
            raise ValueError(f"`mu` must not be negative, and is {self.mu}")

    def usd(self, ctx: Context, candidate: Candidate) -> float:
        """US dollars for the seconds that reading takes, to this request and to the others there."""
        cold_tokens = max(ctx.forecast.prompt_tokens - candidate.warm_tokens, 0)
        return (1 + self.mu) * cold_tokens / candidate.prefill_tokens_per_s * ctx.worth.usd_per_second
