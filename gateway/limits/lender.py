"""The port to the accounts that all replicas share, and the arithmetic that each of its kinds follows.

Of each limit and window there is one account, and in it a line for each replica: what it was granted, what it has
spent, what it has taken in all (spent and held), and until when it is believed to live. A replica tells absolute
numbers, so that telling twice changes nothing. Of a replica that is dead, only what it had spent counts on.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

LEASE_S = 10.0
"""After so long a silence a replica is taken for dead, and what it held is free again."""


class Need(NamedTuple):
    """What a replica tells of one account, and asks of it.

    ``amount`` is the limit. Of what it was granted it keeps ``kept``; ``need`` is how much more it must have, ``wish``
    how much more it would use soon.
    """

    account: str
    end_unix_s: int
    amount: int
    spent: int
    taken: int
    kept: int
    need: int = 0
    wish: int = 0


class Grant(NamedTuple):
    """How much more it may take, beyond what it kept; what the others have or may take, and how many replicas live.

    Of what the ``others`` have, ``taken`` is spent or reserved, and ``spent`` is gone for certain.
    """

    more: int
    others: int
    replicas: int
    taken: int = 0
    spent: int = 0


class Line(NamedTuple):
    """One replica's line in an account; ``alive`` as of now."""

    granted: int
    spent: int
    taken: int
    alive: bool


class LenderLost(Exception):
    """The accounts cannot be reached."""


class Lender(Protocol):
    """Keeps the accounts. ``trouble`` is what people should know of them, empty where all is well."""

    @property
    def trouble(self) -> str:
        """See the class."""
        ...

    async def exchange(self, replica: str, needs: Sequence[Need]) -> list[Grant]:
        """Writes the replica's lines anew, all at once, and grants what is free: one grant for each need.

        Raises:
            LenderLost: it may or may not have been done; doing it again does no harm.
        """
        ...

    async def close(self) -> None:
        """Gives everything back; idempotent."""
        ...


def line_of(need: Need, more: int, *, alive: bool = True) -> Line:
    """The line of a replica that was granted so much ``more``: what it had to have it takes at once."""
    taken = need.kept + min(need.need, more) if need.need else need.taken
    return Line(need.kept + more, need.spent, max(taken, need.taken), alive)


def grant(need: Need, others: Iterable[Line]) -> Grant:
    """What a replica is granted beside the ``others``.

    ::

        free = amount - sum of the others' (granted, or taken where that is more; spent where they are dead) - kept
        more = min(free, max(need, min(wish, free / (2 x replicas alive))))

    What it must have it gets as long as there is any; what it only wishes is at most half of its share of what is free,
    so that as the end comes near the grants become small, and nothing lies about where nobody uses it.
    """
    claimed, replicas, taken, spent = 0, 1, 0, 0
    for line in others:
        replicas += line.alive
        claimed += max(line.granted, line.taken) if line.alive else line.spent
        taken += line.taken if line.alive else line.spent
        spent += line.spent
    free = max(need.amount - claimed - max(need.kept, need.taken), 0)
    more = min(free, max(need.need, min(need.wish, free // (2 * replicas))))
    return Grant(more, claimed, replicas, taken, spent)
