"""Reads the requests and attempts of a report out of the ledger, page by page, and adds them up by line."""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from gateway.accounts import selection as queries
from gateway.accounts.report_group import Group, Spending, TaskKey
from gateway.accounts.selection import PAGE_ROWS, Selection
from gateway.stores.tables import LedgerTables
from gateway.stores.task_key import task_key

MOST_LINES = 10_000
MOST_TASKS = 500_000
"""What a gateway that serves keeps in memory for a report."""

_REQUEST_FIELDS = 13
_ATTEMPT_FIELDS = 11

Key = tuple[Any, ...]


class TooMuch(Exception):
    """The report would be longer than anybody reads, or about more tasks than there is memory for."""


def _no_groups() -> defaultdict[Key, Group]:
    return defaultdict(Group)


@dataclass(slots=True)
class Reading:
    """The lines of a report by what it is broken down by, and what its tasks have spent."""

    groups: defaultdict[Key, Group] = field(default_factory=_no_groups)
    spending: Spending = field(default_factory=Spending)

    def include(self, other: "Reading") -> None:
        """Adds what was read of other requests."""
        for key, group in other.groups.items():
            mine = self.groups[key]
            mine.include(group)
            mine.tasks |= group.tasks
        self.spending.include(other.spending)


async def read(
    tables: LedgerTables,
    selection: Selection,
    by: Sequence[str],
    *,
    page_rows: int = PAGE_ROWS,
    most_tasks: int | None = None,
) -> Reading:
    """Everything that the selection chooses.

    Raises:
        ConfigurationError: there is no ledger, or none of this version.
        LedgerLost: it cannot be read.
        TooMuch: more than ``MOST_LINES``, or than ``most_tasks``.
    """
    alone = await _judged_alone(tables, selection)
    reading = Reading()
    groups, spending = reading.groups, reading.spending
    async for page in _pages(tables, queries.requests_query(by), selection, page_rows, keys=2):
        for key, rows in _by_key(page, _REQUEST_FIELDS, len(by)).items():
            groups[key].add_requests(rows, spending, alone)
        spending.end_page()
        if len(groups) > MOST_LINES:
            raise TooMuch(f"there are more than {MOST_LINES} lines: break it down by less")
        if most_tasks is not None and len(spending.pico_usd) > most_tasks:
            raise TooMuch(f"there are more than {most_tasks} tasks: choose a shorter time")
    async for page in _pages(tables, queries.attempts_query(by), selection, page_rows, keys=3):
        for key, rows in _by_key(page, _ATTEMPT_FIELDS, len(by)).items():
            groups[key].add_attempts(rows, spending, alone)
        spending.end_page()
    return reading


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


async def _judged_alone(tables: LedgerTables, selection: Selection) -> dict[int, TaskKey]:
    rows = await tables.rows(queries.JUDGED_ALONE, tenant=selection.tenant)
    return {seq: task_key(tenant, request) for seq, tenant, request in rows}
