"""The accounts of limits in a file, for the workers of one machine. They outlive a restart, and a ``kill -9``."""

import asyncio
import fcntl
import logging
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from gateway.limits.lender import LEASE_S, Grant, LenderLost, Line, Need, grant, line_of
from gateway.ports import Clock
from gateway.stores.pruning_clock import PruningClock

_BUSY_S = 1.0
_KEEP_S = 86_400

_log = logging.getLogger(__name__)

_TABLE = """
CREATE TABLE IF NOT EXISTS lines (
    account TEXT NOT NULL, replica TEXT NOT NULL, granted INTEGER NOT NULL, spent INTEGER NOT NULL,
    taken INTEGER NOT NULL, alive_until_s REAL NOT NULL, end_unix_s INTEGER NOT NULL, PRIMARY KEY (account, replica)
) WITHOUT ROWID
"""
_OTHERS = "SELECT granted, spent, taken, alive_until_s > ? FROM lines WHERE account = ? AND replica <> ?"
_SHORTEN = "UPDATE lines SET alive_until_s = ? WHERE account = ? AND alive_until_s > ?"
_WRITE = "INSERT OR REPLACE INTO lines VALUES (?, ?, ?, ?, ?, ?, ?)"
_NEWEST = "SELECT max(alive_until_s) FROM lines"
_OVER = "DELETE FROM lines WHERE end_unix_s < ?"


class SqliteLender:
    """The ``Lender`` port on a file that all workers open. Each exchange is one transaction, in a thread.

    The wall clock says who lives, since workers and restarts share no other. A file that is no database, or a broken
    one, is put aside, once for all workers, and begun anew: what was spent in it is forgotten, and ``trouble`` says so.
    """

    def __init__(self, file: Path, *, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._using = threading.Lock()  # limits and the budgets of tasks ask from threads of their own
        self._opened: tuple[int, int] | None = None
        self._tidied_s: float | None = None
        self._pruning = PruningClock(clock.now_s)
        self.trouble = ""

    async def exchange(self, replica: str, needs: Sequence[Need]) -> list[Grant]:
        """See ``Lender``."""
        return await asyncio.to_thread(self._exchange, replica, needs)

    async def close(self) -> None:
        """See ``Lender``."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._using:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _exchange(self, replica: str, needs: Sequence[Need]) -> list[Grant]:
        with self._using:
            try:
                try:
                    return self._transact(replica, needs)
                except sqlite3.DatabaseError as error:
                    if type(error) is not sqlite3.DatabaseError:  # busy, read-only, no room: the file may be well
                        raise
                    self._begin_anew(error)
                    return self._transact(replica, needs)
            except (sqlite3.Error, OSError) as error:
                raise LenderLost(str(error)) from error

    def _transact(self, replica: str, needs: Sequence[Need]) -> list[Grant]:
        connection = self._connected()
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            self._tidy(connection)
            return [self._one(connection, replica, need) for need in needs]

    def _begin_anew(self, error: sqlite3.Error) -> None:
        """Puts a broken file aside, unless another worker has done so since."""
        broken, self._connection = self._connection, None
        if broken is not None:
            broken.close()
        with self._turn():
            if _is_broken(self._file):
                _log.error("the file of the limits' accounts is broken (%s): it is begun anew", error)
                for end in ("-wal", "-shm", ""):
                    file = self._file.with_name(self._file.name + end)
                    if file.exists():
                        file.replace(file.with_name(f"{file.name}.broken"))
        self.trouble = "their file was broken and is begun anew, what was spent before is forgotten"

    def _one(self, connection: sqlite3.Connection, replica: str, need: Need) -> Grant:
        now_s = self._clock.unix_s()
        # A lease is never longer: one that is was written before the clock was set back.
        connection.execute(_SHORTEN, (now_s + LEASE_S, need.account, now_s + LEASE_S))
        with closing(connection.execute(_OTHERS, (now_s, need.account, replica))) as rows:
            granted = grant(need, [Line(*row) for row in rows])
        line = line_of(need, granted.more)
        row = (need.account, replica, line.granted, line.spent, line.taken, now_s + LEASE_S, need.end_unix_s)
        connection.execute(_WRITE, row)
        return granted

    def _tidy(self, connection: sqlite3.Connection) -> None:
        now_s = self._clock.now_s()
        if self._tidied_s is not None and now_s - self._tidied_s < _KEEP_S:
            return
        self._tidied_s = now_s
        unix_s = self._clock.unix_s()
        if not self._pruning.runs:
            with closing(connection.execute(_NEWEST)) as rows:
                self._pruning.set(rows.fetchone()[0] or unix_s)
        connection.execute(_OVER, (int(self._pruning.unix_s(unix_s)) - _KEEP_S,))

    def _connected(self) -> sqlite3.Connection:
        """A connection to the file that is at the path now: where people delete it, all workers must meet in one."""
        if self._connection is not None and self._identity() != self._opened:
            _log.warning("the file of the limits' accounts was taken away while it was open; it is begun anew")
            taken_away, self._connection = self._connection, None
            taken_away.close()
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _open(self) -> sqlite3.Connection:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._turn():  # two that open a fresh file at once are in each other's way, which no busy time-out mends
            return self._opened_anew()

    def _opened_anew(self) -> sqlite3.Connection:
        self._file.touch(mode=0o600)  # SQLite would make it readable to others
        connection = sqlite3.connect(self._file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(_TABLE)
            self._opened = self._identity()
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with self._file.with_suffix(".lock").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._file.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino


def _is_broken(file: Path) -> bool:
    try:
        with closing(sqlite3.connect(file, timeout=_BUSY_S)) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check").fetchone()
    except sqlite3.OperationalError:
        return False
    except sqlite3.DatabaseError:
        return True
    return bool(verdict != "ok")
