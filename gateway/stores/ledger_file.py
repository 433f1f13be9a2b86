"""The ledger's file while it is open: people and machines move, delete and overwrite it, and SQLite does not notice."""

import logging
import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from gateway.errors import ConfigurationError
from gateway.stores.database import open_database
from gateway.stores.file_beginning import FileBeginning, beginning_of

_MAGIC = b"SQLite format 3\0"

_log = logging.getLogger(__name__)


class LedgerFile:
    """A connection to the file at ``path``, opened anew when another file or none is there. For one thread.

    What was committed goes to the file that was open, wherever it lies by now, if that is still possible.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._beginning: FileBeginning | None = None
        self._opened: dict[Path, tuple[int, int]] = {}
        self._size_bytes = 0
        self._doubtful = False

    def connection(self) -> sqlite3.Connection:
        """A connection to the file that is at the path now.

        Raises:
            ConfigurationError: it cannot be opened, or is damaged or no ledger.
            OSError: nobody can say what is there.
        """
        if self._connection is not None and (change := self._change()) is not None:
            _log.warning("the ledger's file %s while it was open; it is opened anew", change)
            self._leave()
        return self._connection or self._open()

    def close(self) -> None:
        """Gives the connection back, which takes back what was not committed; idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()
        beginning, self._beginning = self._beginning, None
        if beginning is not None:
            beginning.leave()

    def _open(self) -> sqlite3.Connection:
        connection = open_database(self._path)
        try:
            if self._doubtful:
                _check(connection, self._path)
            self._opened = {path: _identity(path.stat()) for path in self._paths() if path.exists()}
            self._size_bytes = self._path.stat().st_size
            self._beginning = beginning_of(self._path)
        except BaseException:
            connection.close()
            raise
        self._doubtful = False
        self._connection = connection
        return connection

    def _change(self) -> str | None:
        """What has happened to the file since it was opened. It may grow, and nothing else."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return "was taken away"
        if _identity(found) != self._opened.get(self._path):
            return "was replaced"
        if found.st_size < self._size_bytes:
            self._doubtful = True
            return "was cut short"
        self._size_bytes = found.st_size
        if self._beginning is None or self._beginning.read(len(_MAGIC)) != _MAGIC:
            self._doubtful = True
            return "was overwritten"
        return None

    def _leave(self) -> None:
        """Closes the old file with all that was committed in it, and takes its journal out of the next one's way."""
        if self._connection is not None:
            with suppress(sqlite3.Error):  # SQLite does so itself at the end, but not for a file that has moved
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self.close()
        if self._doubtful:
            return
        for path in self._paths()[1:]:
            with suppress(FileNotFoundError):
                if _identity(path.stat()) == self._opened.get(path):
                    path.unlink()

    def _paths(self) -> tuple[Path, Path, Path]:
        name = self._path.name
        return self._path, self._path.with_name(f"{name}-wal"), self._path.with_name(f"{name}-shm")


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Reads the whole file, which takes its time.

    Raises:
        ConfigurationError: it is damaged.
    """
    try:
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        verdict = str(error)
    if verdict != "ok":
        hint = "move the file away, and a new one is made"
        raise ConfigurationError("the ledger is damaged", file=str(path), hint=hint)
