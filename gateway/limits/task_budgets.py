"""What tasks may take over all their requests, on all workers and replicas: reserved before, settled after.

Each measure of each task is an account with the lender that limits have, too, and this process one line in it. Who
comes in tells how things stand and asks for what it is expected to take, in one exchange; what it took is told at once
when it has ended. So the sum of what is spent and reserved never grows over the budget, but for what an answer takes
beyond its forecast. While the lender is lost, each process knows its own spending and the last it heard of the others'.
What a task has taken is forgotten a week after its last request.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from gateway.clock import until_set
from gateway.limits.lender import Lender, LenderLost, Need
from gateway.ports import Clock
from gateway.seldom import Seldom

KEEP_S = 7 * 86_400
MOST_ACCOUNTS = 10_000
BEAT_S = 3.0
"""An open reservation is told again before its line is taken for a dead one's."""

_log = logging.getLogger(__name__)

Amounts = Mapping[str, int]
"""By measure: nano-dollars, tokens, milliseconds, steps."""


class Short(NamedTuple):
    """The measure that refuses, its budget, and what is left of it."""

    measure: str
    budget: int
    left: int


@dataclass(slots=True, eq=False)
class _Account:
    """One task here. ``line`` is its name with the lender: a fresh one for each time that it is opened anew."""

    name: str
    line: str
    budgets: dict[str, int] = field(default_factory=dict)
    spent: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)
    open: int = 0

    def taken(self, measure: str) -> int:
        return self.spent.get(measure, 0) + self.held.get(measure, 0)


class TaskBudgets:
    """See the module. ``replica`` is this process' name among all that share the lender."""

    def __init__(self, lender: Lender, *, replica: str, clock: Clock) -> None:
        self._lender = lender
        self._replica = replica
        self._clock = clock
        self._lines = count(1)
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._reservations: dict[str, tuple[_Account, dict[str, int]]] = {}
        self._dirty: dict[_Account, None] = {}
        self._news = asyncio.Event()
        self._exchanging = asyncio.Lock()
        self._complain = Seldom(_log)
        self._beating: asyncio.Task[None] | None = None

    async def reserve(self, name: str, task: str, budgets: Amounts, claim: Amounts) -> Short | None:
        """Holds ``claim`` for the request ``name`` of ``task``, on all of its ``budgets`` or on none.

        A measure of which nothing is claimed must have something left all the same.

        Returns:
            What is short, ``None`` where it is held now.
        """
        account = self._account(task)
        account.budgets.update(budgets)
        wanted = {measure: claim.get(measure, 0) for measure in budgets}
        async with self._exchanging:
            short = await self._ask(account, wanted)
            if short is not None:
                self._tell_soon(account)
                return short
            for measure, amount in wanted.items():
                account.held[measure] = account.held.get(measure, 0) + amount
        self._open(name, account, wanted)
        return None

    def count(self, name: str, task: str, measures: Sequence[str]) -> None:
        """The request goes on beside its budget: what it takes is counted, and nothing is held."""
        account = self._account(task)
        self._open(name, account, dict.fromkeys(measures, 0))

    def settle(self, name: str, used: Amounts) -> None:
        """It is over and took this much. A second time is nothing."""
        found = self._reservations.pop(name, None)
        if found is None:
            return
        account, held = found
        account.open -= 1
        for measure, amount in held.items():
            account.held[measure] = account.held.get(measure, 0) - amount
            account.spent[measure] = account.spent.get(measure, 0) + used.get(measure, 0)
        self._tell_soon(account)

    async def close(self) -> None:
        """Tells what is not told yet, and stops; idempotent. The lender is not its own."""
        beating, self._beating = self._beating, None
        if beating is not None:
            async with self._exchanging:  # an exchange that is under way is not torn apart
                beating.cancel()
                await asyncio.wait([beating])
            await self._tell(list(self._dirty))

    # ---- the accounts here

    def _account(self, task: str) -> _Account:
        account = self._accounts.pop(task, None)
        if account is None:
            account = _Account(task, f"{self._replica}.{next(self._lines)}")
        self._accounts[task] = account
        if len(self._accounts) > MOST_ACCOUNTS:
            for name, known in self._accounts.items():
                if not known.open and known not in self._dirty and known is not account:
                    del self._accounts[name]
                    break
        return account

    def _open(self, name: str, account: _Account, held: dict[str, int]) -> None:
        account.open += 1
        self._reservations[name] = (account, held)
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat(), name="headrace-task-budgets")

    def _tell_soon(self, account: _Account) -> None:
        self._dirty[account] = None
        self._news.set()

    # ---- the lender

    async def _ask(self, account: _Account, wanted: dict[str, int]) -> Short | None:
        """Asks for what is wanted; whether that is there."""
        needs = [self._need(account, measure, max(amount, 1)) for measure, amount in wanted.items()]
        try:
            grants = await self._lender.exchange(account.line, needs)
        except LenderLost as error:
            self._complain(
                "the accounts of tasks cannot be reached (%s); each process goes on with what it knows", error
            )
            return self._judge_alone(account, wanted)
        for (measure, amount), need, granted in zip(wanted.items(), needs, grants, strict=True):
            account.others[measure] = granted.others
            if granted.more < max(amount, 1):
                left = max(need.amount - granted.others - need.taken, 0)
                return Short(measure, need.amount, left)
        return None

    def _judge_alone(self, account: _Account, wanted: dict[str, int]) -> Short | None:
        for measure, amount in wanted.items():
            budget = account.budgets[measure]
            left = max(budget - account.others.get(measure, 0) - account.taken(measure), 0)
            if left < max(amount, 1):
                return Short(measure, budget, left)
        return None

    def _need(self, account: _Account, measure: str, amount: int) -> Need:
        taken = account.taken(measure)
        return Need(
            account=f"task:{account.name}/{measure}",
            end_unix_s=int(self._clock.unix_s()) + KEEP_S,
            amount=account.budgets.get(measure, 0),
            spent=account.spent.get(measure, 0),
            taken=taken,
            kept=taken,
            need=amount,
            wish=amount,
        )

    async def _beat(self) -> None:
        """Tells what has changed at once, and what is open every few seconds."""
        while True:
            await until_set(self._news, self._clock, at_most_s=BEAT_S)
            self._news.clear()
            held = [account for account, _ in self._reservations.values()]
            await self._tell(list(dict.fromkeys([*self._dirty, *held])))

    async def _tell(self, accounts: Sequence[_Account]) -> None:
        for account in accounts:
            async with self._exchanging:
                self._dirty.pop(account, None)  # before it is told: what changes meanwhile is told again
                needs = [self._need(account, measure, 0) for measure in account.budgets]
                try:
                    await self._lender.exchange(account.line, needs)
                except LenderLost as error:
                    self._complain("what tasks took cannot be told (%s)", error)
                    self._dirty[account] = None
                    return
