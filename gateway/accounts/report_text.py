"""A report as a table for people and as CSV for spreadsheets; as JSON it is itself."""

import csv
import io
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from gateway.accounts.intervals import Interval
from gateway.accounts.report import Report
from gateway.accounts.report_line import Line, Quantiles
from gateway.accounts.shadow_spending import ShadowSpending

_ENCODER = msgspec.json.Encoder(decimal_format="number")
_NOTHING = "-"
_LITTLE_USD = Decimal("0.01")

HEADINGS = (
    "requests",
    "served",
    "in tok",
    "out tok",
    "cost $",
    "retries $",
    "waste $",
    "tasks",
    "success",
    "unknown",
    "$/success",
    "ttft p50/p90",
    "itl p50",
    "tpot p50",
    "e2e p50/p90",
)


def as_json(report: Report) -> bytes:
    """The report whole, money as exact numbers."""
    return _ENCODER.encode(report)


def as_table(report: Report) -> str:
    """The report in columns, the total last. Intervals stand in brackets, times are in seconds."""
    rows = [[*(one.by[name] or _NOTHING for name in report.by), *_cells(one)] for one in report.lines]
    total = ["total", *[""] * (len(report.by) - 1)] if report.by else []
    table = [[*report.by, *HEADINGS], *rows, [*total, *_cells(report.total)]]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    text = "\n".join(
        "  ".join(_cell(row, at, widths, len(report.by)) for at in range(len(row))).rstrip() for row in table
    )
    return "\n".join([_head(report), "", text, *_notes(report.total, report.shadows)]) + "\n"


def as_csv(report: Report) -> str:
    """One row a line, the total last; nested figures have names such as ``ttft_s.p50``."""
    lines = [*report.lines, report.total]
    flat = [{**one.by, **dict(_flat("", _plain(one)))} for one in lines]
    names = [*report.by, *(name for name in flat[-1] if name not in report.by)]
    names += sorted({name for row in flat for name in row} - set(names))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return out.getvalue()


def dollars(usd: Decimal) -> str:
    """An amount for people: four decimals, and of little money as many as show it."""
    return f"{usd:,.4f}" if not usd or usd >= _LITTLE_USD else f"{usd:.6f}"


def _plain(one: Line) -> dict[str, Any]:
    fields = msgspec.structs.asdict(one)
    del fields["by"]
    return fields


def _flat(prefix: str, fields: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, msgspec.Struct):
            yield from _flat(f"{prefix}{name}.", msgspec.structs.asdict(value))
        elif isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        elif isinstance(value, tuple):
            yield from zip((f"{prefix}{name}.low", f"{prefix}{name}.high"), value, strict=True)
        else:
            yield f"{prefix}{name}", f"{value:f}" if isinstance(value, Decimal) else "" if value is None else value


def _head(report: Report) -> str:
    since, until = report.since or "the beginning", report.until or "now"
    return f"from {since} to {until}, made {report.made}"


def _notes(total: Line, shadows: ShadowSpending) -> list[str]:
    notes = []
    if total.unpriced_attempts:
        notes.append(f"{total.unpriced_attempts} attempts have no known price: costs marked >= are at least so much.")
    if total.tasks.unknown:
        notes.append(
            f"Nobody said how {total.tasks.unknown} tasks ended (${dollars(total.tasks.unknown_cost_usd)}): they are "
            "in no success rate and in no cost per success."
        )
    if shadows.copies:
        at_least = ">=" if shadows.cost_usd is None else ""
        notes.append(
            f"{shadows.copies:,} copies went to shadows ({shadows.passed:,} passed, {shadows.failed:,} failed) for "
            f"{at_least}${dollars(shadows.priced_cost_usd)}, which is in no figure above."
        )
    return ["", *notes] if notes else []


def _cells(one: Line) -> list[str]:
    tasks = one.tasks
    at_least = ">=" if one.cost_usd is None else ""
    dear = ">=" if tasks.cost_per_success_usd is None else ""
    per_success = tasks.cost_per_success_at_least_usd
    return [
        f"{one.requests:,}",
        f"{one.served / one.requests:.1%}" if one.requests else _NOTHING,
        f"{one.prompt_tokens:,}",
        f"{one.output_tokens:,}",
        f"{at_least}{dollars(one.priced_cost_usd)}",
        dollars(one.retry_cost_usd),
        dollars(one.wasted_cost_usd),
        f"{tasks.tasks:,}",
        _NOTHING
        if tasks.success_rate is None
        else f"{tasks.success_rate:.1%}{_within(tasks.success_rate_interval, '.1%')}",
        f"{tasks.unknown:,}",
        _NOTHING
        if per_success is None
        else f"{dear}{per_success:.6f}{_within(tasks.cost_per_success_interval, '.6f')}",
        _times(one.ttft_s, "p50", "p90"),
        _times(one.itl_s, "p50"),
        _times(one.tpot_s, "p50"),
        _times(one.e2e_s, "p50", "p90"),
    ]


def _within(interval: Interval | None, form: str) -> str:
    return "" if interval is None else f" [{interval[0]:{form}}, {interval[1]:{form}}]"


def _times(found: Quantiles | None, *names: str) -> str:
    return _NOTHING if found is None else "/".join(f"{getattr(found, name):.3g}" for name in names)


def _cell(row: Sequence[str], at: int, widths: Sequence[int], names: int) -> str:
    return row[at].ljust(widths[at]) if at < names else row[at].rjust(widths[at])
