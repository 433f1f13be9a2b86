"""Opens the batches of a gateway: their database, the desk that runs them, and the pages for clients."""

from collections.abc import Sequence
from functools import partial

from gateway.attempt.trial import Bench
from gateway.batching.abandoned import Abandoned
from gateway.batching.anthropic_pages import AnthropicBatchPages
from gateway.batching.batch_run import Workshop
from gateway.batching.batch_store import BatchStore
from gateway.batching.bounds import BatchBounds
from gateway.batching.desk import BatchDesk
from gateway.batching.file_pages import FilePages
from gateway.batching.file_store import FileStore
from gateway.batching.idle import Idle
from gateway.batching.openai_pages import OpenAIBatchPages
from gateway.batching.place import batches_place, may_have_batches
from gateway.batching.prepared_tables import PreparedTables
from gateway.batching.service import BatchService
from gateway.door import Door
from gateway.ledger.ledger import EntryLedger
from gateway.openapi.page import Page
from gateway.pipeline import Pipeline
from gateway.settings import Settings
from gateway.stores.sql import SqlLedger
from gateway.stores.tables import LedgerTables, open_tables
from gateway.telemetry.metrics import Metrics

SPARE_BYTES = 8 * 1024 * 1024
"""So much of the disk is held back, so that files can be deleted when it is full."""


class Batches:
    """Files and batches of one process; nothing, where the operator wants none."""

    def __init__(
        self, pages: Sequence[Page] = (), desk: BatchDesk | None = None, tables: LedgerTables | None = None
    ) -> None:
        self.pages = pages
        self._desk = desk
        self._tables = tables

    def start(self) -> None:
        """Begins to run what is there."""
        if self._desk is not None:
            self._desk.start()

    async def close(self) -> None:
        """Leaves everything to whoever comes next; idempotent."""
        if self._desk is not None:
            await self._desk.close()
        if self._tables is not None:
            await self._tables.close()


def open_batches(
    settings: Settings, pipeline: Pipeline, bench: Bench, ledger: EntryLedger, rows: SqlLedger | None, metrics: Metrics
) -> Batches:
    """The batches of a gateway. Nothing is connected yet, and no file is made."""
    if not settings.batches:
        return Batches()
    tables = PreparedTables(open_tables(batches_place(settings), spare_bytes=SPARE_BYTES))
    bounds, clock = bounds_of(settings), bench.clock
    rooms = bench.fleet.rooms
    shop = Workshop(
        tables=tables,
        batches=BatchStore(tables),
        files=FileStore(tables),
        pipeline=pipeline,
        idle=Idle(pipeline, rooms, clock=clock, share=bounds.share, lines_at_once=bounds.lines_at_once),
        abandoned=Abandoned(bench, ledger, partial(_known, ledger, rows)),
        clock=clock,
        bounds=bounds,
        tallies=metrics.batches,
    )
    desk = BatchDesk(shop, partial(may_have_batches, settings))
    return Batches(_pages(settings, shop, desk), desk, tables)


def _pages(settings: Settings, shop: Workshop, desk: BatchDesk) -> list[Page]:
    def door() -> Door:
        return shop.pipeline.rules.door

    service = BatchService(shop.batches, shop.files, shop.bounds, door=door, clock=shop.clock, wake=desk.wake)
    return [
        *FilePages(shop.files, shop.bounds, door=door, clock=shop.clock).routes(),
        *OpenAIBatchPages(service).routes(),
        *AnthropicBatchPages(service, max_body_bytes=settings.max_body_bytes).routes(),
    ]


async def _known(ledger: EntryLedger, rows: SqlLedger | None, request_id: str) -> bool:
    """Whether the ledger has a request of that id, as far as it has rows."""
    ledger.flush()
    return rows is not None and await rows.flush() and bool(await rows.find(request_id))


def bounds_of(settings: Settings) -> BatchBounds:
    """What the operator allows."""
    return BatchBounds(
        max_file_bytes=settings.max_file_bytes,
        max_files=settings.max_files,
        max_stored_bytes=settings.max_stored_bytes,
        kept_s=settings.files_kept_s,
        max_lines=settings.max_batch_lines,
        max_line_bytes=settings.max_body_bytes,
        max_batches=settings.max_batches,
        lines_at_once=settings.batch_lines_at_once,
        share=settings.batch_share,
        lease_s=settings.batch_lease_s,
        silence_s=settings.body_timeout_s,
    )
