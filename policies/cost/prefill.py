"""How long the candidate would read the part of the prompt that it does not hold yet."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.types import Candidate, Context


@dataclass(frozen=True, kw_only=True)
class Prefill:
    """How long the candidate would read the part of the prompt that it does not hold yet.

    ::

        usd    = (read_s + min(mu x read_s, most_extra_s)) x usd_per_second
        read_s = (prompt_tokens - warm_tokens) / prefill_tokens_per_s

    The first ``read_s`` is this request's own wait. ``mu`` is what its reading costs everybody else there: the requests
    behind it and the ones being written, which stand still meanwhile. At 0 the request looks for its own good alone
    and prefixes scatter over all replicas; values of 1 to 2 gather them, and from 4 on a warm cache wins against an
    idle machine. That is why conversations stay where they are, and ``most_extra_s`` is how much longer than elsewhere
    a request may have to wait because of it.

    Attributes:
        mu: how much the time taken from others counts, against the request's own.
        most_extra_s: the most seconds that this may add.

    Example::

        cost:
          - {use: prefill, mu: 1.0, most_extra_s: 10}
    """

    mu: float = 1.0
    most_extra_s: float = 10.0

    def __post_init__(self) -> None:
        for name in ("mu", "most_extra_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"`{name}` must not be negative, and is {getattr(self, name)}")

    def usd(self, ctx: Context, candidate: Candidate) -> float:
        """US dollars for the seconds that reading takes, to this request and to the others there."""
        cold_tokens = ctx.forecast.prompt_tokens - candidate.warm_tokens
        read_s = cold_tokens / candidate.prefill_tokens_per_s if cold_tokens > 0 else 0.0
        extra_s = self.mu * read_s
        return (read_s + (extra_s if extra_s < self.most_extra_s else self.most_extra_s)) * ctx.worth.usd_per_second  # noqa: FURB136  # min() costs four times as much here

    def usd_each(self, ctx: Context, candidates: Sequence[Candidate]) -> list[float]:
        """The same for all candidates."""
        prompt_tokens, usd_per_second = ctx.forecast.prompt_tokens, ctx.worth.usd_per_second
        mu, most_extra_s = self.mu, self.most_extra_s
        bills = []
        for candidate in candidates:
            cold_tokens = prompt_tokens - candidate.warm_tokens
            read_s = cold_tokens / candidate.prefill_tokens_per_s if cold_tokens > 0 else 0.0
            extra_s = mu * read_s
            bills.append((read_s + (extra_s if extra_s < most_extra_s else most_extra_s)) * usd_per_second)  # noqa: FURB136  # min() costs four times as much here
        return bills
