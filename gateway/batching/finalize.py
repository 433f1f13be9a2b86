"""Writes what came out of a batch into files, and says how it ended."""

import hashlib

from msgspec.structs import replace

from gateway.batching.batch import Api, Batch, LineOutcome, Status
from gateway.batching.file_store import HIDDEN, WHOLE, FileStore, FileWriter, StoredFile
from gateway.batching.line_book import LineBook
from gateway.stores.tables import Statement

OUTPUT = "batch_output"


async def finalize(
    batch: Batch, book: LineBook, files: FileStore, *, kept_s: float, now_unix_s: float
) -> tuple[Batch, list[Statement]]:
    """The batch as it is at its end, and what has to be done together with saving that.

    It may be begun anew at any time: the files have the same names again, and nobody sees them before the batch ends.
    """
    counts: dict[str, int] = {outcome.value: 0 for outcome in LineOutcome}
    writers: dict[str, FileWriter] = {}
    async for outcome, body in book.results():
        counts[outcome.value] += 1
        kind = "output" if batch.api is Api.ANTHROPIC or outcome is LineOutcome.COMPLETED else "error"
        if kind not in writers:
            writers[kind] = await files.begin(_file(batch, kind, kept_s=kept_s, now_unix_s=now_unix_s))
        await writers[kind].put(body + b"\n")
    for writer in writers.values():
        await writer.flush()
    record = replace(
        batch.record,
        counts=counts,
        tokens=await book.tokens(),
        output_file_id=writers["output"].file.id if "output" in writers else None,
        error_file_id=writers["error"].file.id if "error" in writers else None,
    )
    ended = replace(batch, record=record).become(_status(counts), now_unix_s)
    state = HIDDEN if batch.api is Api.ANTHROPIC else WHOLE
    return ended, [*[writer.ending(state) for writer in writers.values()], *book.forgetting()]


def _status(counts: dict[str, int]) -> Status:
    if counts[LineOutcome.CANCELLED.value]:
        return Status.CANCELLED
    return Status.EXPIRED if counts[LineOutcome.EXPIRED.value] else Status.COMPLETED


def _file(batch: Batch, kind: str, *, kept_s: float, now_unix_s: float) -> StoredFile:
    own_s = batch.record.output_kept_s
    return StoredFile(
        id=f"file-{hashlib.blake2b(f'{batch.id}/{kind}'.encode(), digest_size=12).hexdigest()}",
        tenant=batch.tenant,
        name=f"{batch.id}_{kind}.jsonl",
        purpose=OUTPUT,
        state=WHOLE,
        size_bytes=0,
        created_unix_s=now_unix_s,
        expires_unix_s=now_unix_s + (kept_s if own_s is None else min(own_s, kept_s)),
    )
