"""A ledger that is filled by a test, and its tables."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.accounts.outcome import ReportedOutcome
from gateway.accounts.task_book import TaskBook
from gateway.accounts.verdicts import Verdicts
from gateway.stores.sql import SqlLedger
from gateway.stores.tables import LedgerTables
from gateway.types import LedgerEntry


class Books:
    """A ledger's tables and the book of its tasks."""

    def __init__(self, ledger: SqlLedger, clock: Any, observers: Sequence[Any]) -> None:
        self.ledger = ledger
        self.tables: LedgerTables = ledger.tables
        verdicts = Verdicts(self.tables, lambda: observers)
        self.book = TaskBook(self.tables, clock=clock, written=self._written, verdicts=verdicts)

    async def take(self, *entries: LedgerEntry) -> None:
        """Writes entries."""
        self.ledger.take(entries)
        assert await self.ledger.flush()

    async def judge(self, tenant: str, task: str, success: bool | None, **fields: Any) -> None:
        """Tells an outcome."""
        await self.book.report(tenant, task, ReportedOutcome(success=success, **fields), None)

    async def _written(self) -> bool:
        return await self.ledger.flush()


@pytest.fixture
def open_books(clock: Any) -> Callable[..., Any]:
    """Opens the books of a ledger at a place."""

    @asynccontextmanager
    async def open_(
        where: Path | str, *, spool: Path | None = None, observers: Sequence[Any] = ()
    ) -> AsyncIterator[Books]:
        ledger = SqlLedger(where, spool=spool, keep_decisions=False)
        ledger.start()
        try:
            yield Books(ledger, clock, observers)
        finally:
            await ledger.close()

    return open_


@pytest.fixture(params=["sqlite", "postgres"])
async def books(request: pytest.FixtureRequest, tmp_path: Path, open_books: Callable[..., Any]) -> AsyncIterator[Books]:
    """The books of an empty ledger, on each kind of database."""
    sqlite = request.param == "sqlite"
    where = tmp_path / "ledger.sqlite3" if sqlite else str(request.getfixturevalue("postgres").new_database())
    async with open_books(where, spool=tmp_path / "spool") as books:
        yield books
