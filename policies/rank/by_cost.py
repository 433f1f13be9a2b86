"""The cheapest first."""

import math
from dataclasses import dataclass
from hashlib import blake2b
from operator import attrgetter

from gateway.types import Bill, Context

_TOTAL = attrgetter("total_usd")


@dataclass(frozen=True, kw_only=True)
class ByCost:
    """The cheapest first.

    Candidates are ordered by the total of their bill. A total that is no number comes last.

    Equal totals, which is what idle replicas have, are ordered by a digest of the request's id and the candidate's
    name: the same request always gets the same order, and different requests spread evenly. The order in the policy
    file decides nothing, so that the first backend of the list is not the one that everybody runs to.

    Example::

        rank: by_cost
    """

    def order(self, ctx: Context, bills: tuple[Bill, ...]) -> tuple[Bill, ...]:
        """The bills by ascending total, each exactly once."""
        totals = {bill.total_usd for bill in bills}
        if len(totals) == len(bills) and not any(map(math.isnan, totals)):  # no need to draw lots
            return tuple(sorted(bills, key=_TOTAL))
        request_id = ctx.request.arrival.id

        def key(bill: Bill) -> tuple[float, bytes]:
            total = math.inf if math.isnan(bill.total_usd) else bill.total_usd
            return total, _lot(request_id, bill.candidate.backend, bill.candidate.model)

        return tuple(sorted(bills, key=key))


def _lot(*names: str) -> bytes:
    return blake2b("\0".join(names).encode("utf-8", "surrogatepass"), digest_size=8).digest()
