"""Reads a large ledger in several processes at once, each its part of the time: Python counts with one core only."""

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

from msgspec.structs import replace

from gateway.accounts.report_reading import Reading, read
from gateway.accounts.selection import Selection
from gateway.process.garbage import no_garbage
from gateway.stores.tables import LedgerTables, open_tables

LEAST_REQUESTS = 200_000
"""Of fewer, starting a process takes longer than counting."""

MOST_PARTS = 4

_COUNT = "SELECT count(*) FROM requests WHERE received_unix_s >= :since AND received_unix_s < :until"
_CUT = """
    SELECT received_unix_s FROM requests
    WHERE received_unix_s >= :since AND received_unix_s < :until
    ORDER BY received_unix_s, seq
    LIMIT 1 OFFSET :behind
"""


async def read_in_parts(
    where: Path, tables: LedgerTables, selection: Selection, by: Sequence[str], *, least: int = LEAST_REQUESTS
) -> Reading:
    """What ``report_reading.read`` answers, of a ledger in a file, which the other processes open too.

    Raises:
        ConfigurationError: there is no ledger, or none of this version.
        LedgerLost: it cannot be read.
        TooMuch: there would be too many lines.
    """
    parts = await _parts(tables, selection, least)
    if len(parts) < 2:  # noqa: PLR2004  # one is all
        return await read(tables, selection, by)
    whole = Reading()
    with ProcessPoolExecutor(len(parts), mp_context=get_context("spawn")) as pool:
        for reading in await asyncio.to_thread(
            lambda: list(pool.map(_read, *zip(*((where, part, tuple(by)) for part in parts), strict=True)))
        ):
            whole.include(reading)
    return whole


async def _parts(tables: LedgerTables, selection: Selection, least: int) -> list[Selection]:
    """As many spans of time as there are cores for, with as many requests each."""
    since = selection.since_unix_s if selection.since_unix_s is not None else -1.0
    bounds = {"since": since, "until": selection.values()["until"]}
    ((requests,),) = await tables.rows(_COUNT, **bounds)
    parts = min(os.cpu_count() or 1, MOST_PARTS, requests // max(least // 2, 1))
    if parts < 2:  # noqa: PLR2004  # likewise
        return [selection]
    cuts = [(await tables.rows(_CUT, **bounds, behind=requests * part // parts))[0][0] for part in range(1, parts)]
    edges = [selection.since_unix_s, *dict.fromkeys(cuts), selection.until_unix_s]
    return [replace(selection, since_unix_s=first, until_unix_s=last) for first, last in pairwise(edges)]


def _read(where: Path, selection: Selection, by: Sequence[str]) -> Reading:
    with no_garbage():
        return asyncio.run(_read_alone(where, selection, by))


async def _read_alone(where: Path, selection: Selection, by: Sequence[str]) -> Reading:
    tables = open_tables(where)
    try:
        return await read(tables, selection, by)
    finally:
        await tables.close()
