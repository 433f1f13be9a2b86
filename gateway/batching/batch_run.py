"""One batch from where it stands to its end, by whoever owns it: validate, send the lines, write the files."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from math import inf

from gateway.batching.abandoned import Abandoned
from gateway.batching.batch import Batch, LineOutcome, Status
from gateway.batching.batch_store import BatchStore
from gateway.batching.bounds import BatchBounds
from gateway.batching.file_store import FileStore
from gateway.batching.finalize import finalize
from gateway.batching.idle import Idle
from gateway.batching.line_book import MOST_AT_ONCE, LineBook, Result
from gateway.batching.line_runner import LineRunner
from gateway.batching.lines import BatchLine, LineFault
from gateway.batching.results import unanswered
from gateway.batching.slots import Slots
from gateway.batching.validation import Verdict, is_there_for, lines_of, validate
from gateway.clock import until_set
from gateway.errors import Unauthenticated
from gateway.pipeline import Pipeline
from gateway.ports import Clock
from gateway.stores.ledger_lost import LedgerLost
from gateway.stores.tables import LedgerTables
from gateway.telemetry.batch_tallies import BatchTallies

_RETRY_S = 1.0


class Stop(Enum):
    """Why the lines of a batch are not sent any more."""

    DONE = auto()
    CANCELLED = auto()
    EXPIRED = auto()


class LeaseLost(Exception):
    """The batch is another's now: what is known of it here is worth nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What a batch is run with. ``tallies`` are told what became of it."""

    tables: LedgerTables
    batches: BatchStore
    files: FileStore
    pipeline: Pipeline
    idle: Idle
    abandoned: Abandoned
    clock: Clock
    bounds: BatchBounds
    tallies: BatchTallies


class BatchRun:
    """Runs a batch that ``owner`` has claimed."""

    def __init__(self, shop: Workshop, batch: Batch, owner: str) -> None:
        self._shop = shop
        self._batch = batch
        self._owner = owner
        self._book = LineBook(shop.tables, batch.id, owner)
        self._lease_unix_s = shop.clock.unix_s() + shop.bounds.lease_s
        self._looked = asyncio.Event()
        self._stop: asyncio.Future[Stop] = asyncio.get_running_loop().create_future()
        self._nothing_left = False

    def look(self) -> None:
        """Something has happened to it: somebody may have cancelled it."""
        self._looked.set()

    async def run(self) -> None:
        """Returns at its end, or when it is another's. Where it is cancelled, anybody may go on with it.

        Raises:
            LedgerLost: the database is away; somebody will go on with it later.
        """
        watch = asyncio.create_task(self._watch(), name="headrace-batch-lease")
        work = asyncio.create_task(self._work(), name="headrace-batch")
        try:
            await asyncio.wait((work, watch), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                await work
        except LeaseLost:
            return
        finally:
            for task in (work, watch):
                task.cancel()
            await asyncio.wait([work, watch])
            await self._leave()

    async def _work(self) -> None:
        await self._account()
        if self._batch.status is Status.VALIDATING:
            await self._validate()
        if self._batch.status is Status.IN_PROGRESS:
            stop = await self._until_stopped()
            if stop is not Stop.DONE:
                await self._give_up(LineOutcome.CANCELLED if stop is Stop.CANCELLED else LineOutcome.EXPIRED)
            await self._save(self._batch.become(Status.FINALIZING, self._now_s()))
        if self._batch.status is Status.FINALIZING:
            await self._persist(self._finalize)

    async def _account(self) -> None:
        """What a process that is no more had begun comes on the ledger, before anything is begun here."""
        begun = {one.line: one for one in await self._book.tries()}
        if begun:
            async with aclosing(self._lines()) as found:
                async for line in found:
                    if not isinstance(line, LineFault) and (left := begun.get(line.number)) is not None:
                        await self._shop.abandoned.record(self._shop.pipeline.rules, self._batch, line, left)
                        await self._persist(partial(self._book.put_back, line.number))
        self._nothing_left = True

    # ---- validating --------------------------------------------------------------------------------------------------

    async def _validate(self) -> None:
        verdict = await self._verdict()
        fields = {"total": verdict.total, "model": verdict.model, "errors": verdict.faults}
        if verdict.faults:
            await self._save(self._batch.become(Status.FAILED, self._now_s(), **{**fields, "total": 0}))
        else:
            await self._save(self._batch.become(Status.IN_PROGRESS, self._now_s(), **fields))

    async def _verdict(self) -> Verdict:
        rules = self._shop.pipeline.rules
        try:
            identity = rules.door.known(self._batch.record.key_sha256)
        except Unauthenticated as error:
            fault = LineFault(code=error.code or "", message=error.message)
            return Verdict(total=0, model="", faults=(fault,))
        async with aclosing(self._lines()) as found:
            return await validate(found, self._shop.bounds, partial(is_there_for, rules.world, identity))

    # ---- in progress -------------------------------------------------------------------------------------------------

    async def _until_stopped(self) -> Stop:
        sending = asyncio.create_task(self._send_all(), name="headrace-batch-lines")
        try:
            await asyncio.wait((sending, self._stop), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                await sending
                return Stop.DONE
            return self._stop.result()
        finally:
            sending.cancel()
            await asyncio.wait([sending])

    async def _send_all(self) -> None:
        """Sends every line that has no result, so many at once."""
        runner = LineRunner(
            self._batch,
            self._book,
            self._shop.pipeline,
            self._shop.idle,
            clock=self._shop.clock,
            persist=self._persist,
        )
        slots = Slots(self._shop.bounds.lines_at_once, self._shop.bounds.max_line_bytes)
        try:
            async with asyncio.TaskGroup() as group, aclosing(self._missing()) as lines:
                async for line in lines:
                    await slots.take(len(line.body))
                    group.create_task(self._run(runner, line, slots))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None  # one stands for all: the batch is another's, or the database is away

    async def _run(self, runner: LineRunner, line: BatchLine, slots: Slots) -> None:
        try:
            self._shop.tallies.lines((await runner.run(line)).outcome)
        finally:
            slots.give_back(len(line.body))

    async def _missing(self) -> AsyncGenerator[BatchLine, None]:
        """The lines without a result."""
        done = await self._book.done()
        async with aclosing(self._lines()) as found:
            async for line in found:
                if not isinstance(line, LineFault) and line.number not in done:
                    yield line

    async def _give_up(self, outcome: LineOutcome) -> None:
        """The lines without a result get the one that they will not be sent any more."""
        results: list[Result] = []
        async with aclosing(self._missing()) as lines:
            async for line in lines:
                results.append(unanswered(self._batch, line, outcome))
                if len(results) >= MOST_AT_ONCE:
                    await self._end(results)
                    results = []
        await self._end(results)

    async def _end(self, results: Sequence[Result]) -> None:
        await self._persist(partial(self._book.end, *results))
        for result in results:
            self._shop.tallies.lines(result.outcome)

    def _lines(self) -> AsyncGenerator[BatchLine | LineFault, None]:
        pieces = self._shop.files.pieces(self._batch.input_file_id)
        return lines_of(self._batch, pieces, self._shop.bounds.max_line_bytes)

    # ---- its end -----------------------------------------------------------------------------------------------------

    async def _finalize(self) -> None:
        kept_s = self._shop.bounds.kept_s
        now_unix_s = self._now_s()
        ended, besides = await finalize(self._batch, self._book, self._shop.files, kept_s=kept_s, now_unix_s=now_unix_s)
        await self._shop.batches.save(ended, self._owner, *besides)
        self._became(ended)

    async def _save(self, batch: Batch) -> None:
        await self._persist(lambda: self._shop.batches.save(batch, self._owner))
        self._became(batch)

    def _became(self, batch: Batch) -> None:
        self._batch = batch
        self._shop.tallies.batch(batch.status)

    # ---- the lease ---------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Renews the lease, and notices that somebody wants the batch to end; returns when it is another's."""
        while True:
            now_s = self._now_s()
            if now_s >= self._batch.expires_unix_s:
                self._stop_for(Stop.EXPIRED)
            try:
                until_s = now_s + self._shop.bounds.lease_s
                await self._shop.batches.renew(self._batch.id, self._owner, until_s)
                owned = await self._shop.batches.owned(self._batch.id, self._owner)
            except LedgerLost:
                if now_s >= self._lease_unix_s:
                    return
            else:
                if owned is None:
                    return
                self._lease_unix_s = until_s
                if owned.cancel_unix_s is not None:
                    self._stop_for(Stop.CANCELLED)
            left_s = self._batch.expires_unix_s - now_s
            pause_s = min(self._shop.bounds.lease_s / 3, left_s if left_s > 0 else inf)
            self._looked.clear()
            await until_set(self._looked, self._shop.clock, at_most_s=pause_s)

    def _stop_for(self, reason: Stop) -> None:
        if not self._stop.done():
            self._stop.set_result(reason)

    async def _persist(self, write: Callable[[], Awaitable[None]]) -> None:
        """Writes, again where the database is away, for as long as the batch is ours.

        Raises:
            LeaseLost: it is not any more.
        """
        while True:
            try:
                await write()
            except LedgerLost:
                if self._now_s() >= self._lease_unix_s or not await self._is_ours():
                    raise LeaseLost from None
                await self._shop.clock.sleep(_RETRY_S)
            else:
                return

    async def _is_ours(self) -> bool:
        """As far as anybody can tell now."""
        try:
            return await self._shop.batches.owned(self._batch.id, self._owner) is not None
        except LedgerLost:
            return True

    async def _leave(self) -> None:
        """Nothing is in flight any more: whoever comes next need not wait for the lease to run out."""
        try:
            if self._nothing_left and not self._batch.over:
                await self._book.put_all_back()
            await self._shop.batches.release(self._batch.id, self._owner)
        except LedgerLost:
            return  # the lease runs out by itself

    def _now_s(self) -> float:
        return self._shop.clock.unix_s()
