"""Limits of several replicas against a plain model of them: counts by the calendar, and nothing else."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from gateway.limits.borrower import Borrower
from gateway.limits.calendar import read_period
from gateway.limits.lender import LEASE_S, Grant, LenderLost, Line, Need, grant
from gateway.limits.limit import Claim, Limit, Measure
from tests.conftest import HandClock

REPLICAS = 3
PERIODS = ("minute", "hour", "day", "month")
BEGINNINGS = (
    ("America/New_York", "2026-03-07T23:50"),  # the clock is set forward at two
    ("America/New_York", "2026-10-31T23:50"),  # and back
    ("America/New_York", "2026-11-01T01:50"),  # in the hour that comes twice
    ("Asia/Tokyo", "2026-01-31T23:59"),
    ("Asia/Tokyo", "2028-02-29T23:59"),
    ("UTC", "2026-12-31T23:59"),
)


class Accounts:
    """The ``Lender`` port in memory, with leases, that can be lost for all at once."""

    trouble = ""

    def __init__(self, clock: HandClock) -> None:
        self.gone = False
        self.lines: dict[str, dict[str, tuple[Need, int, float]]] = {}
        self._clock = clock

    async def exchange(self, replica: str, needs: Sequence[Need]) -> list[Grant]:
        """See ``Lender``."""
        if self.gone:
            raise LenderLost("no answer")
        now_s, granted = self._clock.now_s(), []
        for need in needs:
            lines = self.lines.setdefault(need.account, {})
            others = [
                Line(kept, told.spent, told.taken, alive=until_s > now_s)
                for name, (told, kept, until_s) in lines.items()
                if name != replica
            ]
            granted.append(grant(need, others))
            lines[replica] = (need, need.kept + granted[-1].more, now_s + LEASE_S)
        return granted

    async def close(self) -> None:
        """See ``Lender``."""

    def renew(self, replicas: Sequence[str]) -> None:
        """These have said that they live."""
        until_s = self._clock.now_s() + LEASE_S
        for lines in self.lines.values():
            for name in lines.keys() & set(replicas):
                lines[name] = (*lines[name][:2], until_s)

    def told_spent(self, replica: str, account: str) -> int:
        """What the replica has told of what it spent."""
        known = self.lines.get(account, {}).get(replica)
        return known[0].spent if known is not None else 0


@dataclass(frozen=True)
class Held:
    """An open reservation, and the window of the calendar that it is counted in."""

    name: str
    replica: int
    amount: int
    window: str


class Limits(RuleBasedStateMachine):
    """Requests that come and end in any way on any replica, while time passes and things go wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = HandClock()
        self.accounts = Accounts(self.clock)
        self.made = 0
        self.names: list[str] = []
        self.replicas: list[Borrower] = []
        self.spent: Counter[str] = Counter()
        self.held: list[Held] = []
        self.zone, self.period, self.amount = "UTC", "day", 100

    # ---- the model --------------------------------------------------------------------------------------------------

    @property
    def window(self) -> str:
        """The present window's name, as somebody reads it from a calendar on the wall there."""
        wall = datetime.fromtimestamp(self.clock.unix_s(), ZoneInfo(self.zone))
        told = {"minute": "%Y-%m-%d %H:%M %z", "hour": "%Y-%m-%d %H %z", "day": "%Y-%m-%d", "month": "%Y-%m"}
        return f"{self.period} {wall.strftime(told[self.period])}"

    def taken(self, window: str) -> int:
        """What is gone or reserved by those who live."""
        return self.spent[window] + sum(one.amount for one in self.held if one.window == window)

    # ---- what it is compared with -----------------------------------------------------------------------------------

    def run(self, work: Awaitable[object]) -> object:
        """Runs it on this machine's loop."""
        return self.loop.run_until_complete(work)  # type: ignore[arg-type]  # a coroutine

    def join(self) -> Borrower:
        """A replica that was never there before."""
        self.made += 1
        self.names.append(f"r{self.made}")
        return Borrower(self.accounts, replica=self.names[-1], clock=self.clock)

    def beat(self, replica: Borrower) -> None:
        """What each does once a second."""
        replica.watch([self.limit])
        replica.book.expire(self.clock.now_s())
        self.run(replica._tell(replica._news(), replica._wish))

    def beat_all(self) -> None:
        """Twice, so that what one gives back the others know of."""
        for replica in self.replicas * 2:
            self.beat(replica)

    def reload(self) -> None:
        """The policy file is read anew: all replicas have other objects for the same limits."""
        self.limit = Limit(
            scope="t",
            measure=Measure.REQUESTS,
            amount=self.amount,
            period=read_period(self.period),
            zone=ZoneInfo(self.zone),
        )
        self.beat_all()

    def reserve(self, replica: Borrower, amount: int) -> str | None:
        """The name of the reservation, ``None`` where it was refused."""
        self.made += 1
        name = f"q{self.made}"
        claim = Claim(requests=amount)
        return None if self.run(replica.reserve(name, claim, [self.limit], lasts_s=10**9)) else name

    def use_up(self) -> int:
        """How much can be had, by one from everybody in turn, until nobody has any."""
        had, more = 0, 1
        while more:
            self.beat_all()  # standing leases go where they are needed
            more = sum(self.reserve(one, 1) is not None for one in self.replicas * 10)
            had += more
        return had

    # ---- what happens -----------------------------------------------------------------------------------------------

    @initialize(beginning=st.sampled_from(BEGINNINGS), period=st.sampled_from(PERIODS))
    def begin(self, beginning: tuple[str, str], period: str) -> None:
        """A place, a moment, a limit, three replicas."""
        self.zone, moment = beginning
        self.clock.epoch_s = datetime.fromisoformat(moment).replace(tzinfo=ZoneInfo(self.zone)).timestamp()
        self.period = period
        self.replicas = [self.join() for _ in range(REPLICAS)]
        self.reload()

    @rule(replica=st.integers(0, REPLICAS - 1), amount=st.integers(1, 40))
    def enter(self, replica: int, amount: int) -> None:
        """A request comes: if it is let in, the limit is kept, by whatever everybody has and whoever is lost."""
        window = self.window
        name = self.reserve(self.replicas[replica], amount)
        if name is not None:
            self.held.append(Held(name, replica, amount, window))
            assert self.taken(window) <= self.amount

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0), share=st.sampled_from([0.0, 0.5, 1.0]), times=st.integers(1, 2))
    def leave(self, which: int, share: float, times: int) -> None:
        """A request ends, having used so much of what it reserved; told once or twice."""
        one = self.held.pop(which % len(self.held))
        used = int(one.amount * share)
        for _ in range(times):
            self.replicas[one.replica].book.settle(one.name, Claim(requests=used))
        self.spent[one.window] += used

    @rule(seconds=st.sampled_from([0.3, 1, 1, 61, 3600, 3 * 3600, 86_400, 31 * 86_400]))
    def pass_time(self, seconds: float) -> None:
        """Time passes; whoever lives has told so in between, as it does each second."""
        self.clock.advance(seconds)
        self.accounts.renew(self.names)
        self.beat_all()

    @rule(replica=st.integers(0, REPLICAS - 1))
    def beat_one(self, replica: int) -> None:
        """One tells how things stand."""
        self.beat(self.replicas[replica])

    @rule(replica=st.integers(0, REPLICAS - 1))
    def kill(self, replica: int) -> None:
        """``kill -9``: what it held and what it had not told is gone, and another one comes in its place."""
        name = self.names[replica]
        known = self.replicas[replica].book.allowances()
        for one in known:
            account = f"{one.limit.name}@{one.window.start_unix_s}"
            self.lost_spending(one.limit, one.window.start_unix_s, one.spent - self.accounts.told_spent(name, account))
        self.held = [one for one in self.held if one.replica != replica]
        self.replicas[replica] = self.join()
        self.names[replica] = self.names.pop()

    def lost_spending(self, limit: Limit, start_unix_s: int, amount: int) -> None:
        """So much was spent in a window that nobody will ever hear of."""
        now, self.clock.epoch_s = self.clock.epoch_s, start_unix_s
        period, self.period = self.period, str(limit.period)
        self.spent[self.window] -= amount
        self.clock.epoch_s, self.period = now, period

    @precondition(lambda self: not self.accounts.gone)
    @rule(amount=st.integers(1, 200))
    def change_amount(self, amount: int) -> None:
        """The policy file says another amount."""
        self.amount = max(amount, self.taken(self.window))
        self.reload()

    @precondition(lambda self: not self.accounts.gone)
    @rule(period=st.sampled_from(PERIODS))
    def change_period(self, period: str) -> None:
        """It says another period: that is counted from its beginning on the calendar, and what was spent stays so."""
        self.period = period
        self.amount = max(self.amount, self.taken(self.window))
        self.reload()

    @rule(gone=st.booleans())
    def lose_the_accounts(self, gone: bool) -> None:
        """Nobody can reach them, or everybody can again."""
        self.accounts.gone = gone
        self.beat_all()

    def teardown(self) -> None:
        """When all is over and well, exactly what was not spent can be had, from anybody."""
        try:
            if self.replicas:
                self.accounts.gone = False
                for one in self.held:
                    self.replicas[one.replica].book.abandon(one.name)
                self.held.clear()
                self.beat_all()
                self.clock.advance(LEASE_S + 1)
                self.beat_all()
                assert max(self.amount - self.spent[self.window], 0) == self.use_up()
        finally:
            self.loop.close()


Limits.TestCase.settings = settings(derandomize=True, max_examples=200, stateful_step_count=30)
TestLimits = Limits.TestCase
