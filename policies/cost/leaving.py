"""What is lost with a warm cache that the request leaves behind."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.types import Candidate, Context


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """What is lost with a warm cache that the request leaves behind.

    ::

        usd  = chance x min(left / prefill_tokens_per_s x usd_per_second + left x usd_per_mtok / 1,000,000, most_usd)
        left = warm_elsewhere_tokens - warm_tokens, where that is more than nothing

    A conversation that goes elsewhere does not keep its old place warm: what is said from now on is missing there, and
    what was said before is forgotten after a while. Should it come back, as it does where it left only for a busy
    moment or for a deadline, that must be read, and paid, again. ``left`` is what the warmest other candidate holds of
    this prompt beyond what this one does. What it costs to read the prompt here is another line (``prefill``).

    Attributes:
        chance: how likely the conversation comes back.
        usd_per_mtok: what a million tokens cost more there without the cache; 0 where your machines are paid for.
        most_usd: the most that leaving may cost, so that nobody stays at any price.

    Example::

        cost:
          - {use: leaving, chance: 0.2, usd_per_mtok: 1.0}
    """

    chance: float = 0.2
    usd_per_mtok: float = 0.0
    most_usd: float = 0.01

    def __post_init__(self) -> None:
        if not 0 <= self.chance <= 1:
            raise ValueError(f"`chance` must be from 0 to 1, and is {self.chance}")
        for name in ("usd_per_mtok", "most_usd"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"`{name}` must not be negative, and is {getattr(self, name)}")

    def usd(self, ctx: Context, candidate: Candidate) -> float:
        """US dollars for reading again what is left behind, times how likely that will be needed."""
        if candidate.warm_elsewhere_tokens <= candidate.warm_tokens:
            return 0.0
        return self.usd_each(ctx, (candidate,))[0]

    def usd_each(self, ctx: Context, candidates: Sequence[Candidate]) -> list[float]:
        """The same for all candidates."""
        usd_per_second, usd_per_token = ctx.worth.usd_per_second, self.usd_per_mtok / 1e6
        bills = []
        for candidate in candidates:
            left_tokens = candidate.warm_elsewhere_tokens - candidate.warm_tokens
            if left_tokens <= 0:
                bills.append(0.0)
                continue
            usd = left_tokens / candidate.prefill_tokens_per_s * usd_per_second + left_tokens * usd_per_token
            bills.append(self.chance * min(usd, self.most_usd))
        return bills
