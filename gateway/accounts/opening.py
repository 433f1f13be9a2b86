"""Opens the accounts of a gateway over the tables of its ledger."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gateway.accounts.report_desk import ReportDesk
from gateway.accounts.task_book import OutcomeCounter, TaskBook
from gateway.accounts.verdicts import Verdicts
from gateway.learning.kept_state import SECONDS_PER_DAY
from gateway.ledger.ledger import EntryLedger
from gateway.ports import Clock
from gateway.settings import Settings
from gateway.stores.ledger_place import ledger_place
from gateway.stores.sql import SqlLedger
from gateway.stores.tables import LedgerTables, open_tables
from gateway.task import VerdictObserver

WRITTEN_WITHIN_S = 2.0
"""Who asks for a task's account waits so long for what has just ended to be in it."""


class Accounts(NamedTuple):
    """The book of tasks, and the desk of reports."""

    book: TaskBook
    desk: ReportDesk


def open_accounts(
    settings: Settings,
    tables: LedgerTables,
    rows: SqlLedger,
    ledger: EntryLedger,
    *,
    clock: Clock,
    observers: Callable[[], Sequence[VerdictObserver]],
    count: OutcomeCounter,
) -> Accounts:
    """The accounts over the gateway's ledger, which is in ``tables``. Nothing is connected yet."""

    async def written() -> bool:
        ledger.flush()
        return await rows.flush(WRITTEN_WITHIN_S)

    keep_s = settings.ledger_days * SECONDS_PER_DAY
    verdicts = Verdicts(tables, observers)
    book = TaskBook(tables, clock=clock, written=written, verdicts=verdicts, keep_s=keep_s, count=count)
    return Accounts(book, ReportDesk(lambda: open_tables(ledger_place(settings)), clock=clock))
