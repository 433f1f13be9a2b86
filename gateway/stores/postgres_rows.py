"""The ledger's rows on a PostgreSQL server: a batch of requests is one transaction, from each of many replicas."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

from gateway.stores.postgres import PostgresDatabase, Transaction
from gateway.stores.pruning_clock import PruningClock
from gateway.stores.row_statements import (
    DELETE_OLD,
    FORGET_SPOOL,
    NEWEST_UNIX_S,
    SPOOL_POSITION,
    SPOOL_WRITTEN,
    NamedInserts,
    named_inserts_of,
)
from gateway.stores.row_values import Value
from gateway.stores.rows import Rows
from gateway.stores.spool import Batch
from gateway.stores.spool_frames import Columns

_PRUNED_AT_ONCE = 2000
_SEQUENCE = "SELECT nextval(pg_get_serial_sequence('requests', 'seq')) FROM generate_series(1, :n)"


class PostgresRows:
    """The ``RowStore`` port on the server at ``address``. Rows older than ``keep_s`` are taken out, by ``clock``.

    Its one connection lives on an event loop of its own, in the thread that writes.
    """

    def __init__(self, address: str, *, keep_s: float | None = None, clock: PruningClock | None = None) -> None:
        self._database = PostgresDatabase(address, connections=1)
        self._keep_s = keep_s
        self._clock = clock or PruningClock(monotonic)
        self._runner: asyncio.Runner | None = None

    def prepare(self) -> None:
        """See ``RowStore``. In a thread of its own, since the one that asks may be an event loop's."""
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, self._prepare()).result()

    def write(self, batch: Batch, *, forget: Sequence[str] = ()) -> int:
        """See ``RowStore``."""
        if self._runner is None:
            self.prepare()
            self._runner = asyncio.Runner()
        return self._runner.run(self._write(batch, forget))

    def close(self) -> None:
        """See ``RowStore``."""
        runner, self._runner = self._runner, None
        if runner is not None:
            with runner:
                runner.run(self._database.close())

    async def _prepare(self) -> None:
        try:
            await self._database.prepare()
        finally:
            await self._database.close()

    async def _write(self, batch: Batch, forget: Sequence[str]) -> int:
        segment = batch.segment
        newest_unix_s = max(spooled.rows.received_unix_s for spooled in batch.requests)
        async with self._database.begin() as transaction:
            if not self._clock.runs:
                stored = await transaction.rows(NEWEST_UNIX_S)
                self._clock.set(newest_unix_s if stored[0][0] is None else stored[0][0])
            written = await transaction.rows(SPOOL_POSITION, {"name": segment.name}) if segment is not None else []
            written_to = written[0][0] if written else 0
            fresh = [spooled.rows for spooled in batch.requests if spooled.ends_at > written_to or segment is None]
            bad_rows = await _insert(transaction, fresh, segment.columns if segment is not None else Columns())
            if segment is not None and fresh:
                mark: dict[str, Value] = {"name": segment.name, "position": batch.requests[-1].ends_at}
                await transaction.rows(SPOOL_WRITTEN, {**mark, "written_unix_s": newest_unix_s})
            for name in forget:
                await transaction.rows(FORGET_SPOOL, {"name": name})
            await self._prune(transaction, self._clock.unix_s(newest_unix_s))
        return bad_rows

    async def _prune(self, transaction: Transaction, unix_s: float) -> None:
        """Takes out the oldest of what is past its time, a little with each batch so that none waits for it long."""
        if self._keep_s is not None:
            for statement in DELETE_OLD:
                await transaction.rows(statement, {"before_unix_s": unix_s - self._keep_s, "most": _PRUNED_AT_ONCE})


async def _insert(transaction: Transaction, batch: Sequence[Rows], columns: Columns) -> int:
    """Puts the rows in, all at once or, where one is bad, one by one; how many requests have bad ones."""
    if not batch:
        return 0
    inserts = named_inserts_of(columns.requests, columns.attempts)
    numbers = [seq for (seq,) in await transaction.rows(_SEQUENCE, {"n": len(batch)})]
    numbered = list(zip(numbers, batch, strict=True))
    if await transaction.each(*_statements(inserts, numbered)):
        return 0
    return sum([not await transaction.each(*_statements(inserts, [one])) for one in numbered])


def _statements(
    inserts: NamedInserts, numbered: Sequence[tuple[int, Rows]]
) -> tuple[tuple[str, list[Mapping[str, Value]]], ...]:
    requests = [_named(inserts.request_columns, (seq, *rows.request_row())) for seq, rows in numbered]
    attempts = [_named(inserts.attempt_columns, row) for seq, rows in numbered for row in rows.attempt_rows(seq)]
    return (inserts.request, requests), (inserts.attempt, attempts)


def _named(columns: Sequence[str], row: Sequence[Value]) -> Mapping[str, Value]:
    """By their columns; PostgreSQL has no text with a NUL in it."""
    return {
        name: value.replace("\0", "") if isinstance(value, str) and "\0" in value else value
        for name, value in zip(columns, row, strict=True)
    }
