"""The ledger's rows in SQLite: a batch of requests is one transaction.

WAL with ``synchronous=NORMAL``: a crash of the process loses nothing that was committed, a power cut may lose the last
moments, neither corrupts.
"""

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from time import monotonic

from gateway.errors import ConfigurationError
from gateway.stores.database import open_database
from gateway.stores.ledger_file import LedgerFile
from gateway.stores.ledger_lost import LedgerLost
from gateway.stores.pruning_clock import PruningClock
from gateway.stores.row_statements import (
    DELETE_OLD,
    FORGET_SPOOL,
    LAST_SEQ,
    NEWEST_UNIX_S,
    SPOOL_POSITION,
    SPOOL_WRITTEN,
    Inserts,
    inserts_of,
)
from gateway.stores.row_values import Value
from gateway.stores.rows import Rows
from gateway.stores.spool import Batch
from gateway.stores.spool_frames import Columns
from gateway.stores.sqlite_insert import BlockInsert

_PRUNED_AT_ONCE = 2000
_MOST_INSERTS = 8
# What is wrong with one row, not with the disk: it must not hold up the others.
_BAD_ROW = (sqlite3.IntegrityError, sqlite3.ProgrammingError, OverflowError, ValueError)


class SqliteRows:
    """The ``RowStore`` port on the file ``path``. Rows older than ``keep_s`` are taken out, by ``clock``."""

    def __init__(self, path: Path, *, keep_s: float | None = None, clock: PruningClock | None = None) -> None:
        self._path = path
        self._file = LedgerFile(path)
        self._keep_s = keep_s
        self._clock = clock or PruningClock(monotonic)
        self._block_insert = lru_cache(maxsize=_MOST_INSERTS)(BlockInsert)

    def prepare(self) -> None:
        """See ``RowStore``."""
        open_database(self._path).close()

    def write(self, batch: Batch, *, forget: Sequence[str] = ()) -> int:
        """See ``RowStore``."""
        try:
            return self._write(batch, forget)
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise LedgerLost(str(error)) from error
        except ConfigurationError as error:
            self.close()
            raise LedgerLost(error.message) from error

    def close(self) -> None:
        """See ``RowStore``."""
        self._file.close()

    def _write(self, batch: Batch, forget: Sequence[str]) -> int:
        connection = self._file.connection()
        connection.execute("BEGIN IMMEDIATE")
        newest_unix_s = max(spooled.rows.received_unix_s for spooled in batch.requests)
        if not self._clock.runs:
            (stored_unix_s,) = connection.execute(NEWEST_UNIX_S).fetchone()
            self._clock.set(newest_unix_s if stored_unix_s is None else stored_unix_s)
        segment = batch.segment
        written_to = 0
        if segment is not None:
            found = connection.execute(SPOOL_POSITION, {"name": segment.name}).fetchone()
            written_to = int(found[0]) if found is not None else 0
        fresh = [spooled.rows for spooled in batch.requests if spooled.ends_at > written_to or segment is None]
        bad_rows = self._insert(connection, fresh, segment.columns if segment is not None else Columns())
        if segment is not None and fresh:
            mark = {"name": segment.name, "position": batch.requests[-1].ends_at, "written_unix_s": newest_unix_s}
            connection.execute(SPOOL_WRITTEN, mark)
        for name in forget:
            connection.execute(FORGET_SPOOL, {"name": name})
        self._prune(connection, self._clock.unix_s(newest_unix_s))
        connection.execute("COMMIT")
        return bad_rows

    def _insert(self, connection: sqlite3.Connection, batch: Sequence[Rows], columns: Columns) -> int:
        """Puts the rows in, all at once or, where one is bad, one by one; how many requests have bad ones."""
        if not batch:
            return 0
        inserts = inserts_of(columns.requests, columns.attempts)
        first_seq = 1 + int(connection.execute(LAST_SEQ).fetchone()[0])
        numbered = tuple(enumerate(batch, first_seq))
        connection.execute("SAVEPOINT batch")
        try:
            self._block_insert(inserts.request).put(connection, _request_columns(numbered))
            self._block_insert(inserts.attempt).put(connection, _attempt_columns(numbered))
        except _BAD_ROW:
            connection.execute("ROLLBACK TO batch")
            return sum(not _insert_one(connection, inserts, seq, rows) for seq, rows in numbered)
        return 0

    def _prune(self, connection: sqlite3.Connection, unix_s: float) -> None:
        """Takes out the oldest of what is past its time, a little with each batch so that none waits for it long."""
        if self._keep_s is not None:
            for statement in DELETE_OLD:
                connection.execute(statement, {"before_unix_s": unix_s - self._keep_s, "most": _PRUNED_AT_ONCE})


def _request_columns(numbered: Sequence[tuple[int, Rows]]) -> list[Sequence[Value]]:
    return [
        [seq for seq, _ in numbered],
        *zip(*[rows.request for _, rows in numbered], strict=True),
        *zip(*[rows.late() for _, rows in numbered], strict=True),
    ]


def _attempt_columns(numbered: Sequence[tuple[int, Rows]]) -> list[Sequence[Value]]:
    attempts = [(seq, attempt) for seq, rows in numbered for attempt in rows.attempts]
    return [[seq for seq, _ in attempts], *zip(*[attempt for _, attempt in attempts], strict=True)]


def _insert_one(connection: sqlite3.Connection, inserts: Inserts, seq: int, rows: Rows) -> bool:
    """Whether the rows of one request could be put in."""
    connection.execute("SAVEPOINT one")
    try:
        connection.execute(inserts.request, (seq, *rows.request_row()))
        connection.executemany(inserts.attempt, rows.attempt_rows(seq))
    except _BAD_ROW:
        connection.execute("ROLLBACK TO one")
        return False
    return True
