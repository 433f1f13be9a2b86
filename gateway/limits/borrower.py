"""Reserves on limits that all replicas share, out of what this one has borrowed of them.

The usual reservation finds enough in the local book and waits for nobody. Where it does not, one exchange with the
lender serves all that wait then. Once a second the lender is told how things stand, and what is not needed goes back;
what has not changed is told again in turn, for a server that was started anew has forgotten it.

While the lender is lost, this replica goes on with what it has borrowed. Of each limit that it watches or uses that is
a little at least, a standing lease: the fiftieth part of the limit, less where little is free. Of a window that begins
meanwhile it takes its part, the limit divided by the replicas that there were, and of slots that are given back its
part of those that nobody had. So the overshoot is at most what was borrowed at the loss. Of what the accounts have
never said a word about it takes nothing: how much is spent, nobody knows here. No request waits for a lender that is
known to be lost: the beat finds out when it is back.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from gateway.limits.allowance import Allowance
from gateway.limits.book import Book, Shortage
from gateway.limits.lender import Grant, Lender, LenderLost, Need
from gateway.limits.limit import Claim, Limit, Measure
from gateway.ports import Clock
from gateway.seldom import Seldom

HEARTBEAT_S = 1.0
_LOST_HEARTBEAT_S = 0.1
_AT_ONCE_S = 0.05
_TRIES = 100
_TOLD_AGAIN = 200
"""So many unchanged allowances are told with each beat."""
_MOST_STANDING = 1000
"""Of so many limits there are standing leases: each must be told again before its lease is over."""
_STANDING_SHARE = 50
_SPARED = 8

_log = logging.getLogger(__name__)


class Borrower:
    """See the module. ``replica`` is this one's name; no other's, and not that of one that has died."""

    def __init__(self, lender: Lender, *, replica: str, clock: Clock) -> None:
        self.book = Book()
        self.lost = False
        self.expired = 0
        self._lender = lender
        self._replica = replica
        self._clock = clock
        self._replicas = 1
        self._waiting: Counter[Allowance] = Counter()  # what is asked for, or granted and not yet taken
        self._asking: asyncio.Task[None] | None = None
        self._exchanging = asyncio.Lock()
        self._beating: asyncio.Task[None] | None = None
        self._told_again = 0
        self._heard_unix_s: float | None = None
        self._watched: tuple[Limit, ...] = ()
        self._watched_next = 0
        self._standing = True
        self._complain = Seldom(_log)

    @property
    def trouble(self) -> str:
        """What people should know of the accounts, though they can be reached; empty where all is well."""
        return self._lender.trouble

    async def reserve(
        self, reservation: str, claim: Claim, limits: Sequence[Limit], *, lasts_s: float
    ) -> Sequence[Shortage]:
        """Holds the claim on all limits or on none, for ``lasts_s`` at most.

        Returns:
            What is missing; empty where it is held now.
        """
        short = self._reserve(reservation, claim, limits, lasts_s)
        for _ in range(_TRIES):
            if not short:
                return ()
            await self._borrow(claim, short)
            short = self._reserve(reservation, claim, limits, lasts_s)
            # What was borrowed may have gone to somebody who came just then: it is over only where there is no more.
            if self.lost or any(allowance.exhausted for allowance, _ in short):
                break
        return short

    def watch(self, limits: Iterable[Limit]) -> None:
        """Keeps a standing lease of these, too, though nobody has used them here; of a thousand at most."""
        self._watched = tuple(islice(dict.fromkeys(limits), _MOST_STANDING))

    def start(self) -> None:
        """Begins to tell the lender, once a second."""
        self._beating = asyncio.create_task(self._beat(), name="headrace-limits")

    async def close(self) -> None:
        """Gives back what was borrowed and not used, where the lender can be reached; idempotent."""
        if self._beating is not None:
            async with self._exchanging:  # an exchange that is under way is not torn apart: its grants would be lost
                self._beating.cancel()
                await asyncio.wait([self._beating])
            self._beating = None
            await self._tell(self.book.allowances(), _nothing)
        await self._lender.close()

    def _reserve(self, reservation: str, claim: Claim, limits: Iterable[Limit], lasts_s: float) -> Sequence[Shortage]:
        now_s, unix_s = self._clock.now_s(), self._clock.unix_s()
        return self.book.reserve(reservation, claim, limits, unix_s=unix_s, ends_s=now_s + lasts_s)

    # ---- borrowing

    async def _borrow(self, claim: Claim, short: Sequence[Shortage]) -> None:
        """Asks for what is missing, together with all who ask meanwhile; returns when the answer is booked."""
        if self.lost:
            for allowance, _ in short:
                self._go_on_alone(allowance)
            return
        wanted = Counter({allowance: claim.of(allowance.limit.measure) for allowance, _ in short})
        self._waiting += wanted
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(), name="headrace-borrow")
        try:
            await asyncio.shield(self._asking)  # others wait for it, too, when this one hangs up
        finally:
            self._waiting -= wanted

    async def _ask(self) -> None:
        async with self._exchanging:
            self._asking = None  # whoever comes from now on needs another one
            if self.lost:  # since they asked: they need not wait to be told so again
                for allowance in self._waiting:
                    self._go_on_alone(allowance)
            elif self._waiting:
                await self._exchange(tuple(self._waiting), self._wish)

    async def _beat(self) -> None:
        while True:
            await self._clock.sleep(_LOST_HEARTBEAT_S if self.lost else HEARTBEAT_S)
            self.expired += self.book.expire(self._clock.now_s())
            await self._tell(self._news(), self._wish)

    def _news(self) -> Sequence[Allowance]:
        """What the lender should hear of now; at least one where there is any, to find out whether it is there."""
        unix_s = self._clock.unix_s()
        self._look_around(unix_s)
        known = [one for one in self.book.allowances() if unix_s < one.window.end_unix_s]
        first = self._told_again if self._told_again < len(known) else 0
        self._told_again = first + _TOLD_AGAIN
        self._standing = len(known) <= _MOST_STANDING
        changed = [one for one in known if self._has_changed(one)]
        return tuple(dict.fromkeys([*changed, *known[first : self._told_again]]))

    def _look_around(self, unix_s: float) -> None:
        """Opens the present windows of the next few that are watched."""
        first = self._watched_next if self._watched_next < len(self._watched) else 0
        self._watched_next = first + _TOLD_AGAIN
        for limit in self._watched[first : self._watched_next]:
            self.book.allowance(limit, unix_s)

    async def _tell(self, allowances: Sequence[Allowance], wish: Callable[[Allowance], int]) -> None:
        if allowances:
            async with self._exchanging:
                await self._exchange(allowances, wish)

    async def _exchange(self, allowances: Sequence[Allowance], wish: Callable[[Allowance], int]) -> None:
        """Tells how each allowance stands, with what it needs and what it wishes more, and books what is granted."""
        told = [self._need(allowance, wish(allowance)) for allowance in allowances]
        try:
            grants = await self._answer(told)
        except LenderLost as error:
            self.lost = True
            self._complain("the limits' accounts cannot be reached (%s); this replica goes on with what it has", error)
            for allowance in allowances:
                self._go_on_alone(allowance)
            return
        self.lost = False
        self._heard_unix_s = self._clock.unix_s()
        for allowance, granted, said in zip(allowances, grants, told, strict=True):
            self._replicas = granted.replicas
            allowance.granted += granted.more
            allowance.others = granted.others
            allowance.others_taken, allowance.others_spent = granted.taken, granted.spent
            allowance.exhausted = granted.more < said.need
            allowance.told_spent = said.spent
            allowance.known, allowance.alone = True, False

    async def _answer(self, told: Sequence[Need]) -> Sequence[Grant]:
        """What the lender says; asked again where it failed at once, as a connection does that had died since."""
        begun_s = self._clock.now_s()
        try:
            return await self._lender.exchange(self._replica, told)
        except LenderLost:
            if self.lost or self._clock.now_s() - begun_s > _AT_ONCE_S:
                raise
        return await self._lender.exchange(self._replica, told)

    def _need(self, allowance: Allowance, wish: int) -> Need:
        """Gives up, here and now, what nobody here holds, waits for or wishes: it goes to another at once.

        Whoever was granted something and has not come to take it yet still waits for it. Where all have more together
        than the limit, as when it was lowered, nobody keeps what it has not taken.
        """
        wanted, most = allowance.taken + self._waiting[allowance], allowance.limit.amount - allowance.others
        kept = allowance.granted = max(min(allowance.granted, wanted + wish, most), allowance.taken)
        return Need(
            account=f"{allowance.limit.name}@{allowance.window.start_unix_s}",
            end_unix_s=allowance.window.end_unix_s,
            amount=allowance.limit.amount,
            spent=allowance.spent,
            taken=allowance.taken,
            kept=kept,
            need=max(wanted - kept, 0),
            wish=max(allowance.taken + wish - kept, 0),
        )

    def _go_on_alone(self, allowance: Allowance) -> None:
        if allowance.alone or self._heard_unix_s is None:
            return
        allowance.alone = True
        free = 0
        if allowance.known:
            if allowance.limit.period is None:
                free = allowance.limit.amount - allowance.others - allowance.granted
        elif allowance.window.start_unix_s >= self._heard_unix_s:
            free = allowance.limit.amount
        allowance.granted += max(free, 0) // self._replicas

    def _has_changed(self, allowance: Allowance) -> bool:
        """Whether the lender must hear of it now: what is but a standing lease can wait for its turn."""
        idle_lease = allowance.granted - allowance.spent
        return idle_lease > self._standing_lease(allowance) or not _is_idle(allowance)

    def _wish(self, allowance: Allowance) -> int:
        """Twice what was used since the last exchange, and what is held, or a standing lease if that is more."""
        if allowance.limit.measure is Measure.CONCURRENT:
            return allowance.held
        return max(2 * (allowance.spent - allowance.told_spent) + allowance.held, self._standing_lease(allowance))

    def _standing_lease(self, allowance: Allowance) -> int:
        if not self._standing or allowance.limit.period is None:
            return 0
        return min(max(allowance.limit.amount // _STANDING_SHARE, 1), allowance.left // (_SPARED * self._replicas))


def _is_idle(allowance: Allowance) -> bool:
    return allowance.held == 0 and allowance.spent == allowance.told_spent


def _nothing(allowance: Allowance) -> int:
    del allowance
    return 0
