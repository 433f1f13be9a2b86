"""Opens the accounts of a gateway over its ledger."""

from collections.abc import Callable, Sequence

from gateway.accounts.report_desk import ReportDesk
from gateway.accounts.task_book import Counter, TaskBook
from gateway.accounts.verdicts import Verdicts
from gateway.learning.kept_state import SECONDS_PER_DAY
from gateway.ledger.ledger import EntryLedger
from gateway.ports import Clock
from gateway.settings import Settings
from gateway.stores.judged_rows import JudgedRows
from gateway.stores.ledger_place import ledger_place
from gateway.stores.sql import SqlLedger
from gateway.stores.tables import LedgerTables, open_tables
from gateway.task import VerdictObserver

WRITTEN_WITHIN_S = 2.0
"""Who asks for a task's account waits so long for what has just ended to be in it."""


class Accounts:
    """The tables, and what is made of them: the book of tasks, reports, and the rows of judged answers."""

    def __init__(self, tables: LedgerTables, book: TaskBook, desk: ReportDesk, judged: JudgedRows) -> None:
        self.book = book
        self.desk = desk
        self.judged = judged
        self._tables = tables

    async def close(self) -> None:
        """Gives everything back; idempotent."""
        await self.judged.close()
        await self._tables.close()


def open_accounts(
    settings: Settings,
    rows: SqlLedger | None,
    ledger: EntryLedger,
    *,
    clock: Clock,
    observers: Callable[[], Sequence[VerdictObserver]],
    count: Counter,
) -> Accounts | None:
    """The accounts over the gateway's ledger; ``None`` where none is kept. Nothing is connected yet."""
    if rows is None:
        return None

    async def written() -> bool:
        ledger.flush()
        return await rows.flush(WRITTEN_WITHIN_S)

    where = ledger_place(settings)
    tables = open_tables(where)
    keep_s = settings.ledger_days * SECONDS_PER_DAY
    verdicts = Verdicts(tables, observers)
    book = TaskBook(tables, clock=clock, written=written, verdicts=verdicts, keep_s=keep_s, count=count)
    desk = ReportDesk(lambda: open_tables(where), clock=clock)
    return Accounts(tables, book, desk, JudgedRows(tables, clock=clock, keep_s=keep_s))
