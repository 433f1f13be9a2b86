"""The ledger on disk: SQLite, written off the request path and read where somebody asks.

Serving never waits for the disk and never fails with it. Rows that cannot be written wait and are tried again, so every
request has its row unless the disk stays dead; what is lost then is counted. WAL with ``synchronous=NORMAL``: a crash
of the process loses nothing that was committed, a power cut may lose the last moments, neither corrupts.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic

from gateway.ledger.entry_sink import take_each
from gateway.stores.database import open_database
from gateway.stores.pruning_clock import PruningClock
from gateway.stores.rows import Rows, rows_of
from gateway.stores.sql_writer import SqlWriter
from gateway.types import LedgerEntry

CLOSE_S = 10.0


class SqlLedger:
    """A sink of the ledger that keeps one row a request and one an attempt in the file ``path``.

    ``capacity`` is how many requests may wait for the disk, ``retry_s`` how long it is left alone after a failure,
    ``keep_s`` for how long rows stay, ``keep_decisions`` whether they tell what decisions were made from, ``now_s`` the
    monotonic clock that bounds how soon they go.
    """

    def __init__(
        self,
        path: Path,
        *,
        capacity: int = 20_000,
        retry_s: float = 1.0,
        keep_s: float | None = None,
        keep_decisions: bool = True,
        now_s: Callable[[], float] = monotonic,
    ) -> None:
        self._path = path
        self._keep_decisions = keep_decisions
        self._writer = SqlWriter(path, capacity=capacity, retry_s=retry_s, keep_s=keep_s, clock=PruningClock(now_s))

    @property
    def dropped(self) -> int:
        """How many requests have lost their rows since the start."""
        return self._writer.dropped

    def start(self) -> None:
        """Opens the file, creates or checks its tables, and starts the writer.

        Raises:
            ConfigurationError: the file cannot be opened, is damaged, or is a newer version's.
        """
        open_database(self._path).close()
        self._writer.start()

    def take(self, batch: Sequence[LedgerEntry]) -> None:
        """Queues the rows of ``batch``."""
        rows: list[Rows] = []
        try:
            take_each(batch, lambda entry: rows.append(rows_of(entry, with_decision=self._keep_decisions)))
        finally:
            self._writer.put(rows)

    async def flush(self, timeout_s: float = CLOSE_S) -> bool:
        """Whether everything taken is on disk, after waiting for at most ``timeout_s``."""
        return await asyncio.to_thread(self._writer.wait_until_written, timeout_s)

    async def close(self) -> None:
        """Writes what waits, for at most ``CLOSE_S``, and stops the writer; idempotent."""
        await asyncio.to_thread(self._writer.close, CLOSE_S)

    async def count(self) -> int:
        """How many requests the file has."""
        return int((await asyncio.to_thread(self._read, "SELECT count(*) FROM requests", ()))[0][0])

    async def find(self, request_id: str) -> list[dict[str, object]]:
        """The requests with this id, oldest first, by column, each with its tries under ``attempts_made``."""
        return await asyncio.to_thread(self._find, request_id)

    def _find(self, request_id: str) -> list[dict[str, object]]:
        found = [dict(row) for row in self._read("SELECT * FROM requests WHERE id = ? ORDER BY seq", (request_id,))]
        for request in found:
            attempts = self._read("SELECT * FROM attempts WHERE request_seq = ? ORDER BY n", (request["seq"],))
            request["attempts_made"] = [dict(attempt) for attempt in attempts]
        return found

    def _read(self, query: str, values: tuple[object, ...]) -> list[sqlite3.Row]:
        with closing(sqlite3.connect(self._path)) as connection:
            connection.row_factory = sqlite3.Row
            return connection.execute(query, values).fetchall()
