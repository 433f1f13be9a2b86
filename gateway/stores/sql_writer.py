"""The thread that writes the ledger's rows to SQLite, batch by batch, and bears with a disk that does not take them."""

import logging
import sqlite3
import threading
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from gateway.errors import ConfigurationError
from gateway.seldom import Seldom
from gateway.stores.ledger_file import LedgerFile
from gateway.stores.pruning_clock import PruningClock
from gateway.stores.rows import (
    BLOCK_ROWS,
    DELETE_OLD_ATTEMPTS,
    DELETE_OLD_REQUESTS,
    INSERT_ATTEMPT,
    INSERT_REQUEST,
    LAST_SEQ,
    NEWEST_UNIX_S,
    Rows,
    Value,
    in_blocks,
)

BATCH_REQUESTS = 1000

_LINGER_S = 0.25
"""Rows wait so long for others: a row in a batch of hundreds costs half of one in a batch of few."""

_log = logging.getLogger(__name__)
# What is wrong with one row, not with the disk: it must not hold up the others.
_BAD_ROW = (sqlite3.IntegrityError, sqlite3.ProgrammingError, OverflowError, UnicodeError)


class SqlWriter:
    """Rows wait here, at most ``capacity`` requests, until they are committed. Safe between threads.

    After a failure the disk is left alone for ``retry_s`` and the same rows are tried again; once the writer is closing
    there is one last try. ``dropped`` counts the requests whose rows are lost. Rows older than ``keep_s`` seconds are
    taken out, by ``clock``; ``None`` keeps them all.
    """

    def __init__(self, path: Path, *, capacity: int, retry_s: float, keep_s: float | None, clock: PruningClock) -> None:
        self._file = LedgerFile(path)
        self._clock = clock
        self._capacity = capacity
        self._retry_s = retry_s
        self._keep_s = keep_s
        self._changed = threading.Condition()
        self._waiting: list[Rows] = []
        self._writing: list[Rows] = []
        self._closing = False
        self._hurried = 0
        self._complain = Seldom(_log)
        self._thread = threading.Thread(target=self._run, name="headrace-ledger-sql", daemon=True)
        self.dropped = 0

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def put(self, rows: Sequence[Rows]) -> None:
        """Takes rows; those beyond the capacity, and those that come after the closing, are dropped and counted."""
        with self._changed:
            room = 0 if self._closing else max(self._capacity - len(self._waiting) - len(self._writing), 0)
            news = not self._waiting
            self._waiting.extend(rows[:room])
            if news or self._is_time():  # each wake-up takes Python's lock from the event loop
                self._changed.notify_all()
        self._lose(len(rows) - room, "its queue is full or closed")

    def wait_until_written(self, timeout_s: float) -> bool:
        """Whether everything that was put is on disk, after waiting for at most ``timeout_s``."""
        with self._changed:
            self._hurried += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self._waiting and not self._writing, timeout_s)
            finally:
                self._hurried -= 1

    def close(self, timeout_s: float) -> None:
        """Writes what waits and stops the thread, which gets ``timeout_s``; idempotent."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while batch := self._next_batch():
            try:
                self._write(batch)
            except (sqlite3.Error, OSError, ConfigurationError) as error:
                self._file.close()
                self._complain("the ledger cannot be written, %d requests wait: %s", len(batch), error)
                if not self._rest():
                    continue
                self._lose(len(batch), "the disk does not take them")
            with self._changed:
                self._writing = []
                self._changed.notify_all()
        self._file.close()

    def _next_batch(self) -> list[Rows]:
        """What failed last time, else what waits; empty when the writer is closing and nothing is left."""
        with self._changed:
            if not self._writing:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                self._changed.wait_for(self._is_time, _LINGER_S)
                self._writing = self._waiting[:BATCH_REQUESTS]
                del self._waiting[:BATCH_REQUESTS]
            return self._writing

    def _is_time(self) -> bool:
        """Whether there is no point in waiting for more rows."""
        return self._closing or self._hurried > 0 or len(self._waiting) >= BATCH_REQUESTS

    def _rest(self) -> bool:
        """Leaves the disk alone for a while; whether there is no further try."""
        with self._changed:
            was_closing = self._closing
            self._changed.wait_for(lambda: self._closing, self._retry_s)
            return was_closing

    def _write(self, batch: Sequence[Rows]) -> None:
        connection = self._file.connection()
        connection.execute("BEGIN IMMEDIATE")
        newest_unix_s = max(rows.received_unix_s for rows in batch)
        if not self._clock.runs:
            (stored_unix_s,) = connection.execute(NEWEST_UNIX_S).fetchone()
            self._clock.set(newest_unix_s if stored_unix_s is None else stored_unix_s)
        bad_rows = _insert(connection, batch)
        self._prune(connection, self._clock.unix_s(newest_unix_s))
        connection.execute("COMMIT")
        self._lose(bad_rows, "they are not as the tables want them")

    def _prune(self, connection: sqlite3.Connection, unix_s: float) -> None:
        """Takes out the oldest of what is past its time, a little with each batch so that none waits for it long."""
        if self._keep_s is not None:
            oldest = (unix_s - self._keep_s, 2 * BATCH_REQUESTS)
            connection.execute(DELETE_OLD_ATTEMPTS, oldest)
            connection.execute(DELETE_OLD_REQUESTS, oldest)

    def _lose(self, requests: int, reason: str) -> None:
        if requests > 0:
            with self._changed:
                self.dropped += requests
            self._complain("the ledger lost the rows of %d requests: %s", requests, reason)


def _insert(connection: sqlite3.Connection, batch: Sequence[Rows]) -> int:
    """Puts the rows in, all at once or, where one is bad, one by one; how many requests have bad ones."""
    first_seq = 1 + int(connection.execute(LAST_SEQ).fetchone()[0])
    numbered = tuple(enumerate(batch, first_seq))
    connection.execute("SAVEPOINT batch")
    try:
        _insert_many(connection, INSERT_REQUEST, [(seq, *rows.request_row()) for seq, rows in numbered])
        _insert_many(connection, INSERT_ATTEMPT, [row for seq, rows in numbered for row in _attempts(seq, rows)])
    except _BAD_ROW:
        connection.execute("ROLLBACK TO batch")
        return sum(not _insert_one(connection, seq, rows) for seq, rows in numbered)
    return 0


def _insert_many(connection: sqlite3.Connection, insert: str, rows: Sequence[tuple[Value, ...]]) -> None:
    """Puts rows in by blocks, one statement for each.

    With every statement Python's lock goes to and fro between this thread and the event loop's, which would cost more
    than the writing.
    """
    blocks = len(rows) // BLOCK_ROWS
    statement = in_blocks(insert)
    for number in range(blocks):
        block = rows[number * BLOCK_ROWS : (number + 1) * BLOCK_ROWS]
        connection.execute(statement, tuple(chain.from_iterable(block)))
    connection.executemany(insert, rows[blocks * BLOCK_ROWS :])


def _insert_one(connection: sqlite3.Connection, seq: int, rows: Rows) -> bool:
    """Whether the rows of one request could be put in."""
    try:
        connection.execute(INSERT_REQUEST, (seq, *rows.request_row()))
        connection.executemany(INSERT_ATTEMPT, _attempts(seq, rows))
    except _BAD_ROW:
        return False
    return True


def _attempts(seq: int, rows: Rows) -> list[tuple[Value, ...]]:
    return [(seq, *attempt) for attempt in rows.attempts]
