"""The candidate with the fewest requests under way."""

from dataclasses import dataclass

from gateway.types import Bill, Context
from policies.rank._lot import lot


@dataclass(frozen=True, kw_only=True)
class LeastRequests:
    """The candidate with the fewest requests under way.

    ::

        first = the least in_flight

    The rule of KubeAI's ``LeastLoad`` (``internal/loadbalancer/balance_least_load.go``) and of most proxies that look
    at load at all. One prompt of 30,000 tokens counts as much as one of 30, and nobody's cache is looked at.

    Equals are ordered by a digest of the request's id and the candidate's name.

    Example::

        rank: least_requests
    """

    def order(self, ctx: Context, bills: tuple[Bill, ...]) -> tuple[Bill, ...]:
        """The bills by ascending requests under way."""
        request_id = ctx.request.arrival.id

        def key(bill: Bill) -> tuple[int, bytes]:
            return bill.candidate.in_flight, lot(request_id, bill)

        return tuple(sorted(bills, key=key))
