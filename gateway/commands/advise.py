"""``headrace advise``: where time and money go, and which change the ledger supports."""

import argparse
import asyncio
import sys
from decimal import Decimal

import msgspec

from gateway.accounts.advice import Advice, Advised, advise
from gateway.accounts.report_line import Line
from gateway.accounts.report_text import dollars
from gateway.clock import SystemClock
from gateway.commands import report
from gateway.settings import read_settings
from gateway.stores.ledger_place import ledger_place


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    report.add_selection(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> int:
    """Prints it."""
    selection, now_unix_s = report.selection_of(arguments), SystemClock().unix_s()
    ledger = arguments.ledger or ledger_place(read_settings())
    found = asyncio.run(report.asked(ledger, lambda tables: advise(tables, selection, now_unix_s=now_unix_s)))
    if arguments.format == "json":
        text = msgspec.json.Encoder(decimal_format="number").encode(found).decode() + "\n"
    else:
        text = "\n".join(_lines(found)) + "\n"
    sys.stdout.write(text)
    return 0


def _lines(found: Advised) -> list[str]:
    lines = ["Where the time goes (streams that were served at the first attempt):"]
    lines += [
        f"  {part.backend:20} {part.part:12} {part.seconds:9.3f} s {part.share:6.1%}  of {part.n}"
        for part in found.time
    ] or ["  nothing was streamed"]
    total = sum((line.priced_cost_usd for line in found.money), Decimal(0))
    lines += ["", "Where the money goes:"]
    lines += [_paid(line, total) for line in found.money if total] or ["  nothing has a price"]
    lines += ["", "What the ledger supports:"]
    lines += [line for advice in found.advice for line in _said(advice)] or ["  no change"]
    return lines


def _paid(line: Line, total: Decimal) -> str:
    name, usd = line.by["backend"] or "(none)", line.priced_cost_usd
    return (
        f"  {name:20} ${dollars(usd)} {float(usd / total):6.1%}  in vain ${dollars(line.wasted_cost_usd)}"
        f"  of {line.attempts} attempts"
    )


def _said(advice: Advice) -> list[str]:
    within = f" [{advice.interval[0]:.4g}, {advice.interval[1]:.4g}]" if advice.interval is not None else ""
    return [
        f"  {advice.change}: {advice.subject}",
        f"    {advice.why} {advice.value:.4g}{within} {advice.unit} (n = {advice.n})",
    ]
