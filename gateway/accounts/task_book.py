"""The tasks of a gateway: takes what clients tell of them, and says what they have cost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from gateway.accounts import task_queries as queries
from gateway.accounts.outcome import ReportedOutcome
from gateway.accounts.pace import Pace
from gateway.accounts.task_account import KnownOutcome, TaskAccount, known_outcome, task_account
from gateway.accounts.verdicts import Verdicts
from gateway.errors import ConfigurationError, NotFound, Overloaded
from gateway.ports import Clock
from gateway.stores.ledger_lost import LedgerLost
from gateway.stores.row_values import Value, pico_usd
from gateway.stores.tables import LedgerTables
from gateway.stores.task_key import task_key

MOST_ATTEMPTS_SHOWN = 1000
MOST_AT_ONCE = 4
MOST_WAITING = 64
FORGET_EVERY = 256

_RETRY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What became of a report. ``stands`` is the outcome that holds now: this one, unless it is ``superseded``.

    ``repeated`` tells that its idempotency key had come before, and nothing was changed.
    """

    stands: KnownOutcome
    superseded: bool
    repeated: bool


class OutcomeCounter(Protocol):
    """Counts outcomes."""

    def __call__(self, *, success: bool | None) -> None:
        """One more."""
        ...


def _count_nothing(*, success: bool | None) -> None:
    """Nobody is interested."""


class TaskBook:
    """See the module. A task belongs to its tenant: every question names both.

    Args:
        tables: the ledger's.
        clock: for the times of reports.
        written: brings what has ended into the tables, and tells whether all of it is there.
        verdicts: who is told of outcomes that stand.
        keep_s: for how long outcomes stay, ``None`` for ever.
        count: told of each outcome that was put in.
    """

    def __init__(
        self,
        tables: LedgerTables,
        *,
        clock: Clock,
        written: Callable[[], Awaitable[bool]],
        verdicts: Verdicts,
        keep_s: float | None = None,
        count: OutcomeCounter = _count_nothing,
    ) -> None:
        self._tables = tables
        self._clock = clock
        self._written = written
        self._verdicts = verdicts
        self._keep_s = keep_s
        self._count = count
        self._pace = Pace(clock)
        self._places = asyncio.Semaphore(MOST_AT_ONCE)
        self._waiting = 0
        self.outcomes = 0

    async def report(self, tenant: str, task: str, outcome: ReportedOutcome, key: str | None) -> Kept:
        """Takes an outcome of a task, which need not have had any requests yet; the last by ``at_unix_s`` stands.

        Raises:
            LimitExceeded: the tenant reports faster than is taken.
            Overloaded: the ledger cannot take it now.
        """
        self._pace.spend(tenant)
        now_unix_s = self._clock.unix_s()
        row = _row(outcome, now_unix_s)
        whose: dict[str, Value] = {"tenant": tenant, "task": task}
        async with self._place():
            changed, *_ = await self._tables.write(
                (queries.REMEMBER, {**whose, **row, "given_key": key}),
                (queries.SETTLE, {**whose, "task_key": task_key(tenant, task)}),
                (queries.FORGET_EARLIER, {**whose, "most": queries.MOST_OUTCOMES_KEPT}),
                *self._forgetting(now_unix_s),
            )
            history = await self._tables.rows(queries.HISTORY, **whose)
            if not history:
                raise LedgerLost("it was replaced meanwhile")
            latest = history[0]
            stands = (latest[0], latest[1]) == (row["at_unix_s"], row["received_unix_s"])
            if changed:
                self.outcomes += 1
                self._count(success=outcome.success)
            if changed and stands and self._verdicts.wanted:
                await self._written()
                await self._verdicts.tell(tenant, task, history)
        return Kept(stands=known_outcome(latest), superseded=bool(changed) and not stands, repeated=not changed)

    async def account(self, tenant: str, task: str) -> TaskAccount:
        """What the task has cost so far, with what this process has served up to now.

        Raises:
            NotFound: the tenant has no such task.
            Overloaded: the ledger cannot be read now.
        """
        async with self._place():
            settled = await self._written()
            ask = self._tables.rows
            history = await ask(queries.HISTORY, tenant=tenant, task=task)
            requests = await ask(queries.REQUESTS, tenant=tenant, task=task)
            costs, attempts = queries.COSTS, queries.ATTEMPTS
            if not requests:
                requests = await ask(queries.REQUEST_ALONE, tenant=tenant, task=task)
                costs, attempts = queries.COSTS_ALONE, queries.ATTEMPTS_ALONE
            if not requests and not history:
                raise NotFound("there is no such task", param="id")
            return task_account(
                task,
                requests=requests,
                costs=await ask(costs, tenant=tenant, task=task),
                attempts=await ask(attempts, tenant=tenant, task=task, most=MOST_ATTEMPTS_SHOWN),
                outcomes=[known_outcome(row) for row in history],
                settled=settled,
            )

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """A place among the few that ask the ledger at once: threads are there for others too."""
        if self._waiting >= MOST_WAITING:
            raise Overloaded("too many questions about tasks wait already", retry_after_s=_RETRY_S)
        self._waiting += 1
        try:
            async with self._places:
                yield
        except (ConfigurationError, LedgerLost):  # whose words name a file or a server
            raise Overloaded("the ledger cannot be reached now", retry_after_s=_RETRY_S) from None
        finally:
            self._waiting -= 1

    def _forgetting(self, now_unix_s: float) -> tuple[tuple[str, dict[str, Value]], ...]:
        """Once in a while, what is older than it should be goes."""
        if self._keep_s is None or self.outcomes % FORGET_EVERY:
            return ()
        oldest: dict[str, Value] = {"oldest_unix_s": now_unix_s - self._keep_s}
        return (queries.FORGET_OLD, oldest), (queries.FORGET_OLD_HISTORY, oldest)


def _row(outcome: ReportedOutcome, now_unix_s: float) -> dict[str, Value]:
    return {
        "at_unix_s": outcome.at_unix_s if outcome.at_unix_s is not None else now_unix_s,
        "received_unix_s": now_unix_s,
        "success": int(outcome.success) if outcome.success is not None else None,
        "score": outcome.score,
        "tool_cost_pico_usd": pico_usd(outcome.tool_cost_usd),
        "tool_s": outcome.tool_seconds,
        "retrieval_s": outcome.retrieval_seconds,
        "recovery_cost_pico_usd": pico_usd(outcome.recovery_cost_usd),
        "note": outcome.note,
    }
