"""``headrace report``: what requests and tasks cost, took and came to; or where a provider's bill differs."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from gateway.accounts import reconciliation, report_text
from gateway.accounts.provider_usage import PROVIDERS, read_columns, read_usage
from gateway.accounts.reconciliation import reconcile
from gateway.accounts.report import Report, make_report
from gateway.accounts.report_chart import draw
from gateway.accounts.report_parts import read_in_parts
from gateway.accounts.report_reading import TooMuch
from gateway.accounts.selection import DIMENSIONS, Selection
from gateway.clock import SystemClock
from gateway.commands.moment_option import moment_option
from gateway.errors import ConfigurationError
from gateway.process.garbage import no_garbage
from gateway.settings import read_settings
from gateway.stores.ledger_lost import LedgerLost
from gateway.stores.ledger_place import ledger_place, name_of, read_place
from gateway.stores.tables import LedgerTables, open_tables

T = TypeVar("T")

DIFFERS = 3
_FORMATS = ("table", "csv", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    add_selection(parser)
    parser.add_argument(
        "--by", type=_dimensions, default=(), metavar="NAMES", help=f"break down by some of {','.join(DIMENSIONS)}"
    )
    parser.add_argument("--format", choices=_FORMATS, default="table")
    parser.add_argument(
        "--reconcile",
        type=Path,
        metavar="CSV",
        help="compare with a provider's usage export instead; 3 where it differs",
    )
    parser.add_argument(
        "--columns", default="openai", help=f"of the export: {', '.join(PROVIDERS)}, or a YAML file that names them"
    )
    parser.add_argument(
        "--tolerance", type=Decimal, default=Decimal(0), metavar="SHARE", help="differences up to this share are none"
    )
    parser.add_argument("--chart", type=Path, metavar="FILE", help="draw it, too: a PNG, SVG or PDF")


def add_selection(parser: argparse.ArgumentParser) -> None:
    """The options that choose a ledger and requests of it."""
    parser.add_argument("--ledger", type=read_place, help="a file or a server; by default that of the settings")
    parser.add_argument(
        "--since", type=moment_option, help="from this day or moment on, as 2026-11-30 or 2026-11-30T08:00"
    )
    parser.add_argument("--until", type=moment_option, help="before this day or moment")
    for name in ("tenant", "route", "backend", "model"):
        parser.add_argument(f"--{name}", help=f"of this {name} alone")


def run(arguments: argparse.Namespace) -> int:
    """Prints the report; 0, or 3 where a provider's export differs from the ledger."""
    if arguments.reconcile is not None:
        return _reconcile(arguments)
    with no_garbage():
        report = asyncio.run(
            _report(arguments.ledger or ledger_place(read_settings()), selection_of(arguments), arguments.by)
        )
    if arguments.chart is not None:
        draw(report, arguments.chart)
    sys.stdout.write(_as(report, arguments.format))
    return 0


def selection_of(arguments: argparse.Namespace) -> Selection:
    """The requests that the options choose."""
    return Selection(
        since_unix_s=arguments.since,
        until_unix_s=arguments.until,
        tenant=arguments.tenant,
        route=arguments.route,
        backend=arguments.backend,
        model=arguments.model,
    )


def _reconcile(arguments: argparse.Namespace) -> int:
    theirs = read_usage(arguments.reconcile, read_columns(arguments.columns))
    selection = selection_of(arguments)
    found = asyncio.run(
        asked(
            arguments.ledger or ledger_place(read_settings()),
            lambda tables: reconcile(tables, selection, theirs, tolerance=arguments.tolerance),
        )
    )
    text = (
        reconciliation.as_json(found).decode() + "\n" if arguments.format == "json" else reconciliation.as_text(found)
    )
    sys.stdout.write(text)
    return DIFFERS if found.differences else 0


async def _report(ledger: Path | str, selection: Selection, by: Sequence[str]) -> Report:
    now_unix_s = SystemClock().unix_s()
    try:
        return await asked(ledger, lambda tables: _made(ledger, tables, selection, by, now_unix_s))
    except TooMuch as error:
        raise ConfigurationError(str(error)) from None


async def _made(
    ledger: Path | str, tables: LedgerTables, selection: Selection, by: Sequence[str], now_unix_s: float
) -> Report:
    reading = await read_in_parts(ledger, tables, selection, by) if isinstance(ledger, Path) else None
    return await make_report(tables, selection, by, now_unix_s=now_unix_s, reading=reading)


async def asked(ledger: Path | str, question: Callable[[LedgerTables], Awaitable[T]]) -> T:
    """What the ledger answers, told as a fault of the configuration where it cannot be read."""
    tables = open_tables(ledger)
    try:
        return await question(tables)
    except LedgerLost as error:
        raise ConfigurationError(f"the ledger cannot be read: {error}", file=name_of(ledger)) from error
    finally:
        await tables.close()


def _as(report: Report, form: str) -> str:
    if form == "json":
        return report_text.as_json(report).decode() + "\n"
    return report_text.as_csv(report) if form == "csv" else report_text.as_table(report)


def _dimensions(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in DIMENSIONS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(DIMENSIONS)}")
    return names
