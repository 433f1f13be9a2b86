"""The cheapest first."""

import math
from dataclasses import dataclass
from operator import attrgetter

from gateway.types import Bill, Context
from policies.rank._lot import lot

_SLACK = 2
"""Of a few requests, where they are says nothing."""

_TOTAL = attrgetter("total_usd")


@dataclass(frozen=True, kw_only=True)
class ByCost:
    """The cheapest first.

    Candidates are ordered by the total of their bill. A total that is no number comes last.

    Where the cheapest has more than ``most_load`` times the mean of the candidates' requests in flight, and two more,
    the cheapest of those with no more than the mean goes first, if it is worse by no more than ``even_s`` seconds: what
    all have in common, such as a system prompt, is then read by more than one, also where the first of them has shown
    no strain and nobody knows yet how fast the others read.

    Equal totals, which is what idle replicas have, are ordered by a digest of the request's id and the candidate's
    name: the same request always gets the same order, and different requests spread evenly. The order in the policy
    file decides nothing, so that the first backend of the list is not the one that everybody runs to.

    Attributes:
        most_load: how many times the mean load the cheapest may have before others are preferred to it.
        even_s: how many seconds worse they may be.

    Example::

        rank: {use: by_cost, most_load: 2.0, even_s: 3.0}
    """

    most_load: float = 2.0
    even_s: float = 3.0

    def __post_init__(self) -> None:
        if not 1 <= self.most_load < math.inf:
            raise ValueError(f"`most_load` must be at least 1, and is {self.most_load}")
        if not 0 <= self.even_s < math.inf:
            raise ValueError(f"`even_s` must not be negative, and is {self.even_s}")

    def order(self, ctx: Context, bills: tuple[Bill, ...]) -> tuple[Bill, ...]:
        """The bills, each exactly once."""
        if len(bills) < 2:  # noqa: PLR2004  # nothing to compare
            return bills
        ordered = self._by_total(ctx, bills)
        loads = [bill.candidate.in_flight for bill in bills]
        mean = sum(loads) / max(len(loads), 1)
        if not ordered or ordered[0].candidate.in_flight <= self.most_load * mean + _SLACK:
            return ordered
        highest_usd = ordered[0].total_usd + self.even_s * ctx.worth.usd_per_second
        for at, bill in enumerate(ordered):
            if bill.candidate.in_flight <= mean and bill.total_usd <= highest_usd:
                return (bill, *ordered[:at], *ordered[at + 1 :])
        return ordered

    def _by_total(self, ctx: Context, bills: tuple[Bill, ...]) -> tuple[Bill, ...]:
        totals = {bill.total_usd for bill in bills}
        if len(totals) == len(bills) and not any(map(math.isnan, totals)):  # no need to draw lots
            return tuple(sorted(bills, key=_TOTAL))
        request_id = ctx.request.arrival.id

        def key(bill: Bill) -> tuple[float, bytes]:
            total = math.inf if math.isnan(bill.total_usd) else bill.total_usd
            return total, lot(request_id, bill)

        return tuple(sorted(bills, key=key))
