"""``headrace export``: the ledger's served requests as a trace that ``headrace replay`` plays.

One line a request, in Mooncake's format and with what the ledger knows besides. No prompts: the ledger has none.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from gateway.commands.moment_option import moment_option
from gateway.errors import ConfigurationError
from gateway.replay.parquet import new_trace_file
from gateway.settings import read_settings
from gateway.stores.ledger_place import ledger_place, name_of, read_place
from gateway.stores.ledger_reader import ServedRequest, served_requests
from gateway.stores.tables import open_tables

_BLOCK_TOKENS = 512


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("--ledger", type=read_place, help="a file or a server; by default that of the settings")
    parser.add_argument(
        "--since", type=moment_option, help="from this day or moment on, as 2026-11-30 or 2026-11-30T08:00"
    )
    parser.add_argument(
        "--parquet", type=Path, metavar="FILE", help="into this file, as Parquet, instead of JSON lines"
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the rows; 0 where there are any, 1 where there are none."""
    place = arguments.ledger or ledger_place(read_settings())
    if arguments.parquet is None:
        written = asyncio.run(_written(place, arguments.since, _print))
    else:
        with new_trace_file(arguments.parquet) as file:
            written = asyncio.run(_written(place, arguments.since, file.write))
    if not written:
        raise ConfigurationError("no request was served", file=name_of(place))
    return 0


async def _written(place: Path | str, since_unix_s: float | None, write: Callable[[list[dict[str, Any]]], None]) -> int:
    """How many rows went to ``write``, a page at a time."""
    tables = open_tables(place)
    written = 0
    try:
        async for page in served_requests(tables, since_unix_s=since_unix_s, where=name_of(place)):
            write([_row(request) for request in page])
            written += len(page)
    finally:
        await tables.close()
    return written


def _print(rows: list[dict[str, Any]]) -> None:
    sys.stdout.write(b"".join(msgspec.json.encode(row) + b"\n" for row in rows).decode())


def _row(request: ServedRequest) -> dict[str, Any]:
    blocks = -(-request.prompt_tokens // _BLOCK_TOKENS)
    return {
        "timestamp": round(request.received_unix_s * 1000),
        "input_length": request.prompt_tokens,
        "output_length": request.output_tokens,
        # A block is 2 KB; where a token is longer than four bytes, there are more of them than the engine has.
        "hash_ids": request.blocks[:blocks],
        "model": request.model,
        "tenant": request.tenant,
        "route": request.route,
        "ttft_s": request.ttft_s,
        "cost_usd": request.cost_usd,
    }
