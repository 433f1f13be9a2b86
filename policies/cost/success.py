"""What is lost if the task does not succeed with the candidate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gateway.types import Candidate, Context


@dataclass(frozen=True, kw_only=True)
class Success:
    """What is lost if the task does not succeed with the candidate.

    ::

        usd = usd_per_success x (1 - failure_rate) x (1 - p) / calls

    ``p`` is the chance that a task succeeds whose requests the candidate answers, learned from verdicts: of clients
    (``POST /v1/tasks/{id}/outcome``) and of judges. ``calls`` is how many requests a task has on this route: each bears
    its part of the loss, since each bears its part of the success. So of two candidates the dearer one is chosen where
    what a task costs more there is less than what a success is worth times the successes it brings; that is the
    marginal dollars per additional success, against ``usd_per_success``.

    Nothing is counted twice. ``p`` is learned from requests that were answered, ``failure_rate`` from those that were
    not: with ``risk`` on the bill, ``risk`` + ``success`` is ``usd_per_success`` x (1 - (1 - failure_rate) x p) for a
    task of one request, the whole chance not to succeed. Nobody is billed before the route learns: routes with this
    term do.

    Example::

        cost:
          - money
          - risk
          - success
    """

    steers: ClassVar[bool] = True

    def usd(self, ctx: Context, candidate: Candidate) -> float:
        """US dollars that a failed task costs, times how likely it is, for this request's part of the task."""
        success = candidate.success
        if success is None:
            return 0.0
        lost_usd = ctx.worth.usd_per_success * (1 - candidate.failure_rate)
        return lost_usd * (1 - success.p) / success.calls

    def usd_each(self, ctx: Context, candidates: Sequence[Candidate]) -> list[float]:
        """The same for all candidates."""
        return [self.usd(ctx, candidate) for candidate in candidates]
