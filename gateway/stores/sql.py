"""The ledger in a database: a row a request and a row an attempt, in SQLite's file or on a PostgreSQL server.

Serving never waits for the database and never fails with it. Rows go into a spool first, at the end of the turn of the
event loop in which the request ended: from then on a ``kill -9`` loses nothing, and what a killed process left is
written by the next one that starts. A thread brings them from there into the database, in order, each once. While that
is away, they stay in the spool's files, up to its bound; what is lost beyond it is counted.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import ClassVar

from gateway.ledger.entry_sink import take_each
from gateway.stores.ledger_lost import LedgerLost
from gateway.stores.ledger_writer import LedgerWriter
from gateway.stores.pruning_clock import PruningClock
from gateway.stores.row_store import RowStore
from gateway.stores.rows import ATTEMPT_COLUMNS, REQUEST_COLUMNS, Rows, rows_of
from gateway.stores.spool import Spool
from gateway.stores.sqlite_rows import SqliteRows
from gateway.stores.tables import open_tables
from gateway.types import LedgerEntry

CLOSE_S = 10.0
SPOOL_BYTES = 256 * 1024 * 1024
SPOOL_FOLDER = "spool"

_REQUEST = ("seq", *REQUEST_COLUMNS)
_ATTEMPT = ("request_seq", *ATTEMPT_COLUMNS)
_FIND = f"SELECT {', '.join(_REQUEST)} FROM requests WHERE id = :id ORDER BY seq"  # noqa: S608  # our own names
_TRIES = f"SELECT {', '.join(_ATTEMPT)} FROM attempts WHERE request_seq = :seq ORDER BY n"  # noqa: S608  # likewise

_log = logging.getLogger(__name__)


class SqlLedger:
    """A sink of the ledger that keeps rows at ``where``: a file, or the address of a PostgreSQL server.

    ``spool`` is a private folder on a disk of this machine, beside the file unless said; ``spool_bytes`` may wait in it
    and ``capacity`` requests in memory where it cannot be written. A database that fails is left alone for ``retry_s``.
    Rows stay for ``keep_s``; ``now_s`` is the monotonic clock that bounds how soon they go. ``keep_decisions`` tells
    whether they tell what decisions were made from.
    """

    at_once: ClassVar[bool] = True

    def __init__(
        self,
        where: Path | str,
        *,
        spool: Path | None = None,
        spool_bytes: int = SPOOL_BYTES,
        capacity: int = 20_000,
        retry_s: float = 1.0,
        keep_s: float | None = None,
        keep_decisions: bool = True,
        now_s: Callable[[], float] = monotonic,
    ) -> None:
        self.tables = open_tables(where)
        self._store = _open_store(where, keep_s, PruningClock(now_s))
        self._keep_decisions = keep_decisions
        folder = spool or Path(where).parent / SPOOL_FOLDER
        self._writer = LedgerWriter(
            self._store, Spool(folder, most_bytes=spool_bytes, capacity=capacity), retry_s=retry_s
        )

    @property
    def dropped(self) -> int:
        """How many requests have lost their rows since the start."""
        return self._writer.dropped

    @property
    def waiting(self) -> int:
        """How many requests are in the spool and not yet in the database."""
        return self._writer.waiting

    def start(self) -> None:
        """Makes or checks the tables, opens the spool, and starts the writer. A server that is away is waited for.

        Raises:
            ConfigurationError: the database is damaged or a newer version's, or there can be no spool.
        """
        try:
            self._store.prepare()
        except LedgerLost as error:
            _log.error("the ledger cannot be reached, rows wait in its spool: %s", error)
        self._writer.start()

    def take(self, batch: Sequence[LedgerEntry]) -> None:
        """Puts the rows of ``batch`` into the spool."""
        rows: list[Rows] = []
        try:
            take_each(batch, lambda entry: rows.append(rows_of(entry, with_decision=self._keep_decisions)))
        finally:
            self._writer.put(rows)

    async def flush(self, timeout_s: float = CLOSE_S) -> bool:
        """Whether everything taken is in the database, after waiting for at most ``timeout_s``."""
        return await asyncio.to_thread(self._writer.wait_until_written, timeout_s)

    async def close(self) -> None:
        """Writes what waits, for at most ``CLOSE_S``, and stops the writer; idempotent."""
        await asyncio.to_thread(self._writer.close, CLOSE_S)
        await self.tables.close()

    async def count(self) -> int:
        """How many requests the database has."""
        return int((await self.tables.rows("SELECT count(*) FROM requests"))[0][0])

    async def find(self, request_id: str) -> list[dict[str, object]]:
        """The requests with this id, oldest first, by column, each with its tries under ``attempts_made``."""
        found: list[dict[str, object]] = []
        for row in await self.tables.rows(_FIND, id=request_id):
            tries = await self.tables.rows(_TRIES, seq=row[0])
            request = dict(zip(_REQUEST, row, strict=True))
            found.append({**request, "attempts_made": [dict(zip(_ATTEMPT, one, strict=True)) for one in tries]})
        return found


def _open_store(where: Path | str, keep_s: float | None, clock: PruningClock) -> RowStore:
    if isinstance(where, Path):
        return SqliteRows(where, keep_s=keep_s, clock=clock)
    from gateway.stores.postgres_rows import PostgresRows  # noqa: PLC0415  # an extra, and 20 MB of memory

    return PostgresRows(where, keep_s=keep_s, clock=clock)
