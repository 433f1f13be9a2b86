"""The thread that brings rows from the spool into the database, batch by batch, and bears with one that is away."""

import logging
import threading
from collections.abc import Sequence

import msgspec

from gateway.errors import ConfigurationError
from gateway.seldom import Seldom
from gateway.stores.ledger_lost import LedgerLost
from gateway.stores.row_store import RowStore
from gateway.stores.rows import Rows
from gateway.stores.spool import Batch, Segment, Spool, adopt

BATCH_REQUESTS = 256
"""A thousand in one transaction take no less time each, and 5 MiB of memory more while they are written."""

_LINGER_S = 0.25
"""Rows wait so long for others: a row in a batch of hundreds costs half of one in a batch of few."""

_log = logging.getLogger(__name__)


class LedgerWriter:
    """Takes rows into the spool at once, and writes them to the store. ``put`` is safe between threads.

    After a failure the database is left alone for ``retry_s`` and the same rows are tried again. When the writer is
    closing there is one last try; what is in the spool's files then is there for the next start. ``dropped`` counts the
    requests whose rows are lost.
    """

    def __init__(self, store: RowStore, spool: Spool, *, retry_s: float) -> None:
        self._store = store
        self._spool = spool
        self._retry_s = retry_s
        self._changed = threading.Condition()
        self._closing = False
        self._hurried = 0
        self._adopting = True
        self._gone: list[str] = []
        self._complain = Seldom(_log)
        self._tell_loss = Seldom(_log)
        self._thread = threading.Thread(target=self._run, name="headrace-ledger-rows", daemon=True)
        self.dropped = 0

    @property
    def waiting(self) -> int:
        """How many requests are not in the database."""
        return self._spool.waiting

    def start(self) -> None:
        """Opens the spool and starts the thread.

        Raises:
            ConfigurationError: there can be no spool.
        """
        try:
            self._spool.open()
        except OSError as error:
            raise ConfigurationError(f"the ledger has no spool: {error}", file=str(self._spool.folder)) from error
        self._thread.start()

    def put(self, rows: Sequence[Rows]) -> None:
        """Takes rows; on return they outlive the process. Those that there is no room for are lost and counted."""
        if self._closing:
            self._lose(len(rows), "it is closed")
            return
        before, lost = self._spool.append(rows)
        if not before or before + len(rows) >= BATCH_REQUESTS:  # each wake-up takes Python's lock from the event loop
            with self._changed:
                self._changed.notify_all()
        self._lose(lost, "its spool is full")

    def wait_until_written(self, timeout_s: float) -> bool:
        """Whether everything that was put is in the database, after waiting for at most ``timeout_s``."""
        with self._changed:
            self._hurried += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self._spool.waiting and not self._adopting, timeout_s)
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
        if not self._adopt():
            self._finish()
            return
        while (batch := self._next()) is not None:
            if not self._write(batch):
                break
            with self._changed:
                self._gone += self._spool.done(batch)
                self._changed.notify_all()
        self._finish()

    def _adopt(self) -> bool:
        """Writes what dead processes have left; whether there is time for more."""
        for segment in adopt(self._spool.folder):
            try:
                if not self._take_over(segment):
                    segment.leave()
                    return False
            except (OSError, msgspec.DecodeError) as error:
                _log.error("a part of the spool %s cannot be read: %s", segment.path, error)
            if segment.at < segment.size_bytes:
                _log.error("%s is damaged from byte %d on, and set aside", segment.path, segment.at)
                segment.set_aside()
            else:
                segment.remove()
            self._gone.append(segment.name)
        with self._changed:
            self._adopting = False
            self._changed.notify_all()
        return True

    def _take_over(self, segment: Segment) -> bool:
        while batch := segment.read(BATCH_REQUESTS):
            if not self._write(Batch(segment, batch)):
                return False
            segment.at = batch[-1].ends_at
        return True

    def _next(self) -> Batch | None:
        """The next batch; ``None`` when the writer is closing and nothing is left."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._spool.waiting or self._closing)
                self._changed.wait_for(self._is_time, _LINGER_S)
            batch = self._spool.next_batch(BATCH_REQUESTS)
            if batch is not None or self._closing:
                return batch

    def _is_time(self) -> bool:
        """Whether there is no point in waiting for more rows."""
        return self._closing or self._hurried > 0 or self._spool.waiting >= BATCH_REQUESTS

    def _write(self, batch: Batch) -> bool:
        """Tries until it is written; ``False`` where the writer closes before that."""
        while True:
            last = self._closing
            try:
                bad_rows = self._store.write(batch, forget=self._gone)
            except (LedgerLost, ConfigurationError) as error:
                self._store.close()
                self._complain("the ledger cannot be written, %d requests wait: %s", self._spool.waiting, error)
                if last:
                    return False
                with self._changed:
                    self._changed.wait_for(lambda: self._closing, self._retry_s)
            else:
                self._gone.clear()
                self._lose(bad_rows, "they are not as the tables want them")
                return True

    def _finish(self) -> None:
        self._lose(self._spool.close(), "they were in memory, for the spool could not be written")
        self._store.close()

    def _lose(self, requests: int, reason: str) -> None:
        if requests > 0:
            with self._changed:
                self.dropped += requests
            self._tell_loss("the ledger lost the rows of %d requests: %s", requests, reason)
