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


class SqliteTables:
    """The ``LedgerTables`` port on the file at ``path``. Reading changes nothing there, and waits for no writer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = threading.Lock()
        self._file = LedgerFile(path)

    async def rows(self, query: str, **values: Value) -> list[tuple[Any, ...]]:
        """See ``LedgerTables``."""
        return await asyncio.to_thread(self._rows, query, values)

    async def write(self, *statements: tuple[str, dict[str, Value]]) -> list[int]:
        """See ``LedgerTables``."""
        return await asyncio.to_thread(self._write, statements)

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

    def _write(self, statements: tuple[tuple[str, dict[str, Value]], ...]) -> list[int]:
        with self._writing:
            try:
                connection = self._file.connection()
                connection.execute("BEGIN IMMEDIATE")
                changed = [connection.execute(statement, values).rowcount for statement, values in statements]
                connection.execute("COMMIT")
            except (sqlite3.Error, OSError) as error:
                self._file.close()  # which takes back what was begun
                raise LedgerLost(str(error)) from error
        return changed

    def _close(self) -> None:
        with self._writing:
            self._file.close()


def _complete(connection: sqlite3.Connection) -> None:
    """Gives the connection ``floor``, which an SQLite that was built without mathematics lacks."""
    try:
        connection.execute("SELECT floor(1.5)")
    except sqlite3.OperationalError:
        connection.create_function("floor", 1, math.floor, deterministic=True)
