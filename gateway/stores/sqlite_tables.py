"""The ledger's tables in SQLite's file: readers beside the one that writes, each question in a thread of its own."""

import asyncio
import math
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

from gateway.stores.database import open_for_reading
from gateway.stores.ledger_file import LedgerFile
from gateway.stores.ledger_lost import LedgerLost
from gateway.stores.row_values import Value
from gateway.stores.spare_room import SpareRoom


class SqliteTables:
    """The ``LedgerTables`` port on the file at ``path``. Reading changes nothing there, and waits for no writer.

    ``spare_bytes`` are held back beside it, for ``free``. The write-ahead log is 4 MB and a little: with twice that it
    can be written into the database, whatever else has filled the disk.
    """

    def __init__(self, path: Path, *, spare_bytes: int = 0) -> None:
        self._path = path
        self._spare = SpareRoom(path.with_name(f"{path.name}-spare"), spare_bytes)
        self._writing = threading.Lock()
        self._file = LedgerFile(path)

    async def rows(self, query: str, **values: Value) -> list[tuple[Any, ...]]:
        """See ``LedgerTables``."""
        return await asyncio.to_thread(self._rows, query, values)

    async def write(self, *statements: tuple[str, dict[str, Value]]) -> list[int]:
        """See ``LedgerTables``."""
        return await asyncio.to_thread(self._write, statements)

    async def free(self, *statements: tuple[str, dict[str, Value]]) -> list[int]:
        """See ``LedgerTables``."""
        return await asyncio.to_thread(self._free, statements)

    async def close(self) -> None:
        """See ``LedgerTables``."""
        await asyncio.to_thread(self._close)

    def _rows(self, query: str, values: dict[str, Value]) -> list[tuple[Any, ...]]:
        with closing(open_for_reading(self._path)) as connection:
            try:
                _complete(connection)
                return connection.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise LedgerLost(str(error)) from error

    def _write(self, statements: tuple[tuple[str, dict[str, Value]], ...], *, hold_back: bool = True) -> list[int]:
        with self._writing:
            try:
                connection = self._file.connection()
                if hold_back and statements:
                    self._spare.make()
                connection.execute("BEGIN IMMEDIATE")
                changed = [connection.execute(statement, values).rowcount for statement, values in statements]
                connection.execute("COMMIT")
            except (sqlite3.Error, OSError) as error:
                self._file.close()  # which takes back what was begun
                raise LedgerLost(str(error)) from error
        return changed

    def _free(self, statements: tuple[tuple[str, dict[str, Value]], ...]) -> list[int]:
        try:
            return self._write(statements)
        except LedgerLost as lost:
            if not _is_full(lost.__cause__):
                raise
        self._spare.give_up()
        self._write_through()  # what stands in the log takes the room that it needs itself
        try:
            return self._write(statements, hold_back=False)
        finally:
            self._write_through()
            self._spare.make()

    def _write_through(self) -> None:
        with self._writing:
            try:
                self._file.connection().execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
            except (sqlite3.Error, OSError):
                self._file.close()

    def _close(self) -> None:
        with self._writing:
            self._file.close()


def _is_full(error: BaseException | None) -> bool:
    return isinstance(error, sqlite3.Error) and error.sqlite_errorcode == sqlite3.SQLITE_FULL


def _complete(connection: sqlite3.Connection) -> None:
    """Gives the connection ``floor``, which an SQLite that was built without mathematics lacks."""
    try:
        connection.execute("SELECT floor(1.5)")
    except sqlite3.OperationalError:
        connection.create_function("floor", 1, math.floor, deterministic=True)
