"""Each candidate in turn."""

from dataclasses import dataclass, field

from gateway.types import Bill, Context


class _Turns:
    """How many requests there have been. The same request, asked about again, has the same turn."""

    __slots__ = ("_request_id", "_turn")

    def __init__(self) -> None:
        self._request_id = ""
        self._turn = -1

    def of(self, request_id: str) -> int:
        if request_id != self._request_id:
            self._request_id = request_id
            self._turn += 1
        return self._turn


@dataclass(frozen=True, kw_only=True)
class RoundRobin:
    """Each candidate in turn.

    The plainest of all rules, and the default of most reverse proxies (NGINX's ``upstream``). It looks at nothing: not
    at who is busy, not at how long a prompt is, not at who has it in its cache. A rival to measure against.

    Each replica of the gateway has turns of its own.

    Example::

        rank: round_robin
    """

    _turns: _Turns = field(init=False, repr=False, compare=False, default_factory=_Turns)

    def order(self, ctx: Context, bills: tuple[Bill, ...]) -> tuple[Bill, ...]:
        """The bills by the candidates' names, beginning with the one whose turn it is."""
        if not bills:
            return bills
        ring = sorted(bills, key=lambda bill: (bill.candidate.backend, bill.candidate.model))
        first = self._turns.of(ctx.request.arrival.id) % len(ring)
        return (*ring[first:], *ring[:first])
