"""Opens the ledger's SQLite file: private to its owner, in WAL mode, with the tables of this version."""

import logging
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from gateway.errors import ConfigurationError
from gateway.stores.migrations import SCHEMA_VERSION, statements_from

BUSY_S = 5.0
CACHE_KIB = 1024
"""Pages that a connection keeps: a batch of rows and the branches of its indexes. SQLite's own limit is twice that."""

STATEMENTS = 32
"""Prepared ones that a connection keeps: those for many rows are large, and Python would keep 128."""

_log = logging.getLogger(__name__)


def open_database(path: Path) -> sqlite3.Connection:
    """A connection that commits only when told, after checking the file and creating its tables where it is new.

    Raises:
        ConfigurationError: the file cannot be opened, is damaged or no database, or was written by a newer version.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _create(path)
        connection = sqlite3.connect(
            path, timeout=BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS
        )
    except (OSError, sqlite3.Error) as error:
        raise ConfigurationError(f"the ledger cannot be opened: {error}", file=str(path)) from error
    try:
        _prepare(connection, path)
    except sqlite3.Error as error:
        connection.close()
        damaged = not isinstance(error, sqlite3.OperationalError)
        hint = "move the file away, and a new one is made" if damaged else ""
        raise ConfigurationError(f"the ledger cannot be used: {error}", file=str(path), hint=hint) from error
    except ConfigurationError:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, to the file of a running gateway too.

    Raises:
        ConfigurationError: there is none, it cannot be read, or it is of another version.
    """
    if not path.is_file():
        raise ConfigurationError("there is no ledger", file=str(path))
    try:
        connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True)
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error as error:
        raise ConfigurationError(f"the ledger cannot be read: {error}", file=str(path)) from error
    if version != SCHEMA_VERSION:
        connection.close()
        hint = "`headrace serve` brings an older one up to date"
        fault = f"the ledger has version {version}, this is version {SCHEMA_VERSION}"
        raise ConfigurationError(fault, file=str(path), hint=hint)
    return connection


def _create(path: Path) -> None:
    """Makes a file for its owner alone: SQLite would go by the umask; its -wal and -shm files copy this one's mode.

    One that is there is not even opened: closing it would give up all locks that this process has on it, and with them
    what keeps another process from taking the write-ahead log away while it is in use.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute("BEGIN IMMEDIATE")  # two processes may find the same new file
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA_VERSION:
        raise ConfigurationError(
            f"the ledger has version {version}, this is version {SCHEMA_VERSION}",
            file=str(path),
            hint="a newer headrace wrote it: run that one, or choose another file",
        )
    if version < SCHEMA_VERSION:
        if version:
            _log.info(
                "%s: bringing the ledger from version %d to %d", path, version, SCHEMA_VERSION
            )  # may take a while
        for statement in statements_from(version):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")
