"""The allowances of this replica, and the reservations on them: reserve, settle or abandon.

Nothing here waits. Where an allowance does not suffice, the answer is what is missing; whoever can borrow more from the
account that all replicas share does, and asks again.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gateway.limits.allowance import Allowance
from gateway.limits.limit import Claim, Limit

MOST_ALLOWANCES = 100_000


class Shortage(NamedTuple):
    """An allowance that lacks ``amount``."""

    allowance: Allowance
    amount: int


class _Reservation(NamedTuple):
    holds: tuple[tuple[Allowance, int], ...]
    ends_s: float


class Book:
    """All allowances and reservations. Reservations go by the attempt's id, so that each step may be done twice.

    Every reservation is a lease: one that nobody ends is abandoned at its time by ``expire``.
    """

    def __init__(self) -> None:
        self._allowances: dict[str, Allowance] = {}
        self._reservations: dict[str, _Reservation] = {}

    @property
    def reservations(self) -> int:
        """How many are open."""
        return len(self._reservations)

    def allowances(self) -> Sequence[Allowance]:
        """All that are kept."""
        return tuple(self._allowances.values())

    def allowance(self, limit: Limit, unix_s: float) -> Allowance:
        """The limit's allowance in the window of that moment; a fresh one where the old one's window is over.

        A clock that was set back does not open a window again that has been closed.
        """
        known = self._allowances.get(limit.name)
        if known is not None and unix_s < known.window.end_unix_s and known.limit is limit:
            return known
        window = limit.window(unix_s)
        if known is None or window.start_unix_s > known.window.start_unix_s:
            known = self._allowances[limit.name] = Allowance(limit, window)
            self._forget_unused(unix_s)
        if known.limit is not limit:
            known.change(limit)
        return known

    def reserve(
        self, reservation: str, claim: Claim, limits: Iterable[Limit], *, unix_s: float, ends_s: float
    ) -> list[Shortage]:
        """Holds the claim on all limits, or on none.

        Returns:
            What is missing, empty where it is held now. A reservation that is open already is left as it is.
        """
        if reservation in self._reservations:
            return []
        wanted = [(self.allowance(limit, unix_s), claim.of(limit.measure)) for limit in limits]
        short = [Shortage(allowance, missing) for allowance, n in wanted if n and (missing := allowance.missing(n))]
        if short:
            return short
        for allowance, amount in wanted:
            allowance.hold(amount)
        self._reservations[reservation] = _Reservation(tuple(wanted), ends_s)
        return []

    def settle(self, reservation: str, used: Claim) -> None:
        """It is over, and took this much, in the window in which it was reserved. Unknown ones are over already."""
        found = self._reservations.pop(reservation, None)
        for allowance, held in found.holds if found is not None else ():
            allowance.settle(held, used.of(allowance.limit.measure))

    def abandon(self, reservation: str) -> None:
        """It is over and took nothing."""
        self.settle(reservation, Claim())

    def expire(self, now_s: float) -> int:
        """Abandons what should have been over by now; how many there were. Walks over what is open."""
        expired = [name for name, reservation in self._reservations.items() if reservation.ends_s <= now_s]
        for name in expired:
            self.abandon(name)
        return len(expired)

    def _forget_unused(self, unix_s: float) -> None:
        if len(self._allowances) <= MOST_ALLOWANCES:
            return
        over = [name for name, known in self._allowances.items() if known.window.end_unix_s <= unix_s]
        for name in over:
            del self._allowances[name]
