"""Out: a candidate with which tasks succeed too rarely, as far as verdicts show."""

from dataclasses import dataclass
from typing import ClassVar

from gateway.errors import ClientError
from gateway.types import Candidate, Context


@dataclass(frozen=True, kw_only=True)
class LeastSuccess:
    """Out: a candidate with which tasks succeed too rarely, as far as verdicts show.

    ::

        out = upper bound of p < rate                   by default: in doubt it stays
        out = lower bound of p < rate                   where it must be proven: in doubt it is out

    ``p`` is the chance that a task succeeds whose requests the candidate answers, learned from verdicts; its bounds
    hold with the ``confidence`` that the route's ``success`` has, 0.95 unless set. A candidate of which nothing is
    known stays by default, since it may be the better one.

    It never leaves nobody: where no candidate remains otherwise, those that are out for this reason alone come back,
    the likeliest to succeed first. On a route, ``least_success: 0.9`` puts it behind the route's other filters.

    Attributes:
        rate: successes per task, 0 to 1.
        proven: whether a candidate must have shown that it reaches the rate.

    Example::

        filter:
          - healthy
          - capable
          - {use: least_success, rate: 0.9}
    """

    rate: float
    proven: bool = False

    refusal: ClassVar[type[ClientError] | None] = None
    steers: ClassVar[bool] = True
    yields: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(f"`rate` must be above 0 and at most 1, and is {self.rate}")

    def exclude(self, ctx: Context, candidate: Candidate) -> str | None:  # noqa: ARG002  # the port's signature
        """``71.2% of tasks succeed (65.1% to 77.0%, 210 tasks), at least 90.0% are wanted``, or ``None``."""
        known = candidate.success
        if known is None or (known.low if self.proven else known.high) >= self.rate:
            return None
        shown = f"{known.mean:.1%} of tasks succeed ({known.low:.1%} to {known.high:.1%}, {known.n:.0f} tasks)"
        return f"{shown}, at least {self.rate:.1%} are wanted"
