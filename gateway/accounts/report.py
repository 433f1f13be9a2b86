"""The report: what requests and tasks of the ledger cost, took and came to, by whatever it is broken down by.

Requests are counted where they were served, and attempts where they were made: so the lines add up to the total. A task
is counted whole in each line in which it had a request, and once in the total.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, date, datetime
from operator import itemgetter
from typing import Any

from msgspec import Struct

from gateway.accounts import selection as queries
from gateway.accounts.report_group import Group, Spending, TaskKey
from gateway.accounts.report_line import Line, Outcomes, Tasks, line
from gateway.accounts.selection import PAGE_ROWS, Selection
from gateway.accounts.task_account import moment
from gateway.stores.tables import LedgerTables

MOST_LINES = 10_000
MOST_TASKS = 500_000
"""What a gateway that serves keeps in memory for a report."""
_REQUEST_FIELDS = 13
_ATTEMPT_FIELDS = 11
_EPOCH_DAY = date(1970, 1, 1).toordinal()

Key = tuple[Any, ...]
Take = Callable[[Key, list[tuple[Any, ...]]], None]


class Report(Struct, frozen=True, kw_only=True):
    """The lines, dearest first (days in their order), and the ``total`` of all."""

    object: str = "report"
    by: tuple[str, ...]
    since: str | None
    until: str | None
    made: str
    lines: tuple[Line, ...]
    total: Line


class TooMuch(Exception):
    """The report would be longer than anybody reads, or about more tasks than there is memory for."""


async def make_report(
    tables: LedgerTables,
    selection: Selection,
    by: Sequence[str] = (),
    *,
    now_unix_s: float,
    page_rows: int = PAGE_ROWS,
    most_tasks: int | None = None,
) -> Report:
    """Reads the ledger in pages: memory grows with the number of tasks, not of requests.

    Raises:
        ConfigurationError: there is no ledger, or none of this version.
        LedgerLost: it cannot be read.
        TooMuch: more than ``MOST_LINES``, or than ``most_tasks``.
    """
    groups, tasks = await _read(tables, selection, by, page_rows=page_rows, most_tasks=most_tasks)
    total = Group()
    for group in groups.values():
        total.include(group)
    lines = [line(_named(by, key), group, tasks) for key, group in groups.items()] if by else []
    lines.sort(key=lambda one: (one.by.get("day", ""), -one.priced_cost_usd, -one.requests, tuple(one.by.values())))
    return Report(
        by=tuple(by),
        since=moment(selection.since_unix_s) if selection.since_unix_s is not None else None,
        until=moment(selection.until_unix_s) if selection.until_unix_s is not None else None,
        made=moment(now_unix_s),
        lines=tuple(lines),
        total=line({}, total, tasks),
    )


async def _read(
    tables: LedgerTables, selection: Selection, by: Sequence[str], *, page_rows: int, most_tasks: int | None
) -> tuple[dict[Key, Group], Tasks]:
    outcomes = await _outcomes(tables, selection)
    alone = await _judged_alone(tables, selection) if outcomes else {}
    groups: dict[Key, Group] = defaultdict(Group)
    spending = Spending()

    async for page in _pages(tables, queries.requests_query(by), selection, page_rows, keys=2):
        for key, rows in _by_key(page, _REQUEST_FIELDS, len(by)).items():
            groups[key].add_requests(rows, spending, alone)
        if len(groups) > MOST_LINES:
            raise TooMuch(f"there are more than {MOST_LINES} lines: break it down by less")
        if most_tasks is not None and len(spending.pico_usd) > most_tasks:
            raise TooMuch(f"there are more than {most_tasks} tasks: choose a shorter time")
    async for page in _pages(tables, queries.attempts_query(by), selection, page_rows, keys=3):
        for key, rows in _by_key(page, _ATTEMPT_FIELDS, len(by)).items():
            groups[key].add_attempts(rows, spending, alone)
    return groups, Tasks(spending, outcomes)


async def _pages(
    tables: LedgerTables, query: str, selection: Selection, page_rows: int, *, keys: int
) -> AsyncIterator[list[tuple[Any, ...]]]:
    """Pages of rows; the first ``keys`` columns say where the next one begins."""
    names = ("after_unix_s", "after_seq", "after_n")[:keys]
    after: Sequence[Any] = selection.before_first[:keys]
    while True:
        page = await tables.rows(query, **selection.values(), most=page_rows, **dict(zip(names, after, strict=True)))
        if page:
            yield page
        if len(page) < page_rows:
            return
        after = page[-1][:keys]


def _by_key(page: list[tuple[Any, ...]], fields: int, dimensions: int) -> dict[Key, list[tuple[Any, ...]]]:
    """The rows of a page by what the report is broken down by."""
    if not dimensions:
        return {(): page}
    found: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    key_of = itemgetter(*range(fields, fields + dimensions))
    for row in page:
        found[key_of(row)].append(row)
    return found if dimensions > 1 else {(key,): rows for key, rows in found.items()}


async def _outcomes(tables: LedgerTables, selection: Selection) -> Outcomes:
    found: dict[TaskKey, tuple[bool | None, int]] = {}
    after = ("", "")
    while True:
        page = await tables.rows(
            queries.OUTCOMES,
            after_tenant=after[0],
            after_task=after[1],
            tenant=selection.tenant,
            most=PAGE_ROWS,
        )
        for _, _, key, success, tools_pico, recovery_pico in page:
            found[key] = (None if success is None else bool(success), tools_pico + recovery_pico)
        if len(page) < PAGE_ROWS:
            return found
        after = page[-1][:2]


async def _judged_alone(tables: LedgerTables, selection: Selection) -> dict[int, TaskKey]:
    rows = await tables.rows(queries.JUDGED_ALONE, tenant=selection.tenant)
    return dict(rows)


def _named(by: Sequence[str], key: Key) -> dict[str, str]:
    values = [day_of(value) if name == "day" else str(value) for name, value in zip(by, key, strict=True)]
    return dict(zip(by, values, strict=True))


def day_of(days: int) -> str:
    """The date that so many days after the epoch is."""
    return date.fromordinal(_EPOCH_DAY + days).isoformat()


def read_moment(text: str) -> float:
    """A day or a moment as seconds since the epoch; without a zone it is UTC.

    Raises:
        ValueError: it is none.
    """
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
