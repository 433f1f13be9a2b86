"""What this replica may still take of one limit in one window."""

from gateway.limits.calendar import Window
from gateway.limits.limit import Limit


class Allowance:
    """An account with three numbers, each never negative.

    ``granted`` is what this replica may take in all: a lease from all replicas' common account. ``spent`` is what has
    been settled, ``held`` what is reserved by attempts under way. Of the last exchange with that account there are:
    ``known``, whether there was one; ``others``, what the other replicas had or might take, of which they had taken
    (spent or reserved) ``others_taken``, and spent ``others_spent``; ``told_spent``, what was told; and ``exhausted``,
    whether less was granted than was needed. ``alone`` tells that this replica has taken its part since, the accounts
    being lost.
    """

    __slots__ = (
        "alone",
        "exhausted",
        "granted",
        "held",
        "known",
        "limit",
        "others",
        "others_spent",
        "others_taken",
        "spent",
        "told_spent",
        "window",
    )

    def __init__(self, limit: Limit, window: Window) -> None:
        self.limit = limit
        self.window = window
        self.granted = 0
        self.spent = 0
        self.held = 0
        self.others = 0
        self.others_taken = 0
        self.others_spent = 0
        self.known = False
        self.alone = False
        self.exhausted = False
        self.told_spent = 0

    @property
    def taken(self) -> int:
        """What is gone or reserved here."""
        return self.spent + self.held

    @property
    def left(self) -> int:
        """What all replicas together may still take, as far as it is known here."""
        return max(self.limit.amount - self.others - self.taken, 0)

    def change(self, limit: Limit) -> None:
        """The limit is another amount from now on; what was granted beyond it and is not taken yet is void."""
        self.limit = limit
        self.granted = max(min(self.granted, limit.amount), self.taken)

    def missing(self, amount: int) -> int:
        """How much more would have to be granted for ``amount`` to be held."""
        return max(self.taken + amount - self.granted, 0)

    def hold(self, amount: int) -> None:
        """Reserves."""
        self.held += amount

    def settle(self, held: int, used: int) -> None:
        """A reservation is over, ``used`` of it was really taken; what was used beyond it is spent all the same."""
        self.held -= held
        if self.limit.period is not None:  # what is only held is given back whole
            self.spent += used
