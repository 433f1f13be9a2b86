"""The allowances of this replica, and the reservations on them: reserve, settle or abandon.

Nothing here waits. Where an allowance does not suffice, the answer is what is missing; whoever can borrow more from the
account that all replicas share does, and asks again.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from gateway.limits.allowance import Allowance
from gateway.limits.calendar import Window
from gateway.limits.limit import Claim, Limit

MOST_ALLOWANCES = 100_000
_MOST_EXPIRED = 10_000


class Shortage(NamedTuple):
    """An allowance that lacks ``amount``."""

    allowance: Allowance
    amount: int


class _Reservation(NamedTuple):
    holds: tuple[tuple[Allowance, int], ...]
    ends_s: float


class Book:
    """All allowances and reservations. Reservations go by the attempt's id, so that each step may be done twice.

    Every reservation is a lease: one that nobody ends is given back at its time by ``expire``. Where somebody ends it
    after all, what it used is spent: of the last ten thousand.
    """

    def __init__(self) -> None:
        self._allowances: dict[str, Allowance] = {}
        self._before: dict[str, Allowance] = {}  # of the windows before these
        self._reservations: dict[str, _Reservation] = {}
        self._expired: dict[str, _Reservation] = {}

    @property
    def reservations(self) -> int:
        """How many are open."""
        return len(self._reservations)

    def allowances(self) -> Sequence[Allowance]:
        """All that are kept."""
        return tuple(self._allowances.values())

    def allowance(self, limit: Limit, unix_s: float) -> Allowance:
        """The limit's allowance in the window of that moment; a fresh one where the old one's window is over.

        A clock that was set back finds the window before as it was left, and one that was set forward again the later
        one. One that goes back to where nothing is known stays in the present window, so that none is opened twice; but
        not where that begins in more than its length: then the clock was ahead, and nobody waits for it to be so again.
        """
        known = self._allowances.get(limit.name)
        if known is not None and known.limit is limit and known.window.start_unix_s <= unix_s < known.window.end_unix_s:
            return known
        window, before = limit.window(unix_s), self._before.get(limit.name)
        found = before if before is not None and before.window == window else None
        if known is None or found is not None or _is_another(known.window, window, unix_s):
            if known is not None:
                self._before[limit.name] = known
            known = self._allowances[limit.name] = found or Allowance(limit, window)
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
        found = self._reservations.pop(reservation, None) or self._expired.pop(reservation, None)
        for allowance, held in found.holds if found is not None else ():
            allowance.settle(held, used.of(allowance.limit.measure))

    def abandon(self, reservation: str) -> None:
        """It is over and took nothing."""
        self.settle(reservation, Claim())

    def expire(self, now_s: float) -> int:
        """Gives back what should have been over by now; how many there were. Walks over what is open."""
        expired = [name for name, reservation in self._reservations.items() if reservation.ends_s <= now_s]
        for name in expired:
            found = self._reservations.pop(name)
            for allowance, held in found.holds:
                allowance.settle(held, 0)
            self._expired[name] = found._replace(holds=tuple((allowance, 0) for allowance, _ in found.holds))
        for name in tuple(islice(self._expired, max(len(self._expired) - _MOST_EXPIRED, 0))):
            del self._expired[name]
        return len(expired)

    def _forget_unused(self, unix_s: float) -> None:
        if len(self._allowances) <= MOST_ALLOWANCES:
            return
        over = [name for name, known in self._allowances.items() if known.window.end_unix_s <= unix_s]
        for name in over:
            del self._allowances[name]
            self._before.pop(name, None)


def _is_another(known: Window, now: Window, unix_s: float) -> bool:
    return now.start_unix_s > known.start_unix_s or known.start_unix_s - unix_s > now.end_unix_s - now.start_unix_s
