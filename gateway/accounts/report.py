"""The report: what requests and tasks of the ledger cost, took and came to, by whatever it is broken down by.

Requests are counted where they were served, and attempts where they were made: so the lines add up to the total. A task
is counted whole in each line in which it had a request, and once in the total.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from msgspec import Struct

from gateway.accounts import selection as queries
from gateway.accounts.moments import day_of, moment
from gateway.accounts.report_group import Group, TaskKey
from gateway.accounts.report_line import Line, Outcomes, Tasks, line
from gateway.accounts.report_reading import Key, Reading, read
from gateway.accounts.selection import PAGE_ROWS, Selection
from gateway.accounts.shadow_spending import ShadowSpending, shadow_spending
from gateway.stores.tables import LedgerTables
from gateway.stores.task_key import task_key

_NOBODY_SAID: tuple[bool | None, int] = (None, 0)


class Report(Struct, frozen=True, kw_only=True):
    """The lines, dearest first (days in their order), the ``total`` of all, and apart from it the ``shadows``."""

    object: str = "report"
    by: tuple[str, ...]
    since: str | None
    until: str | None
    made: str
    lines: tuple[Line, ...]
    total: Line
    shadows: ShadowSpending


async def make_report(
    tables: LedgerTables,
    selection: Selection,
    by: Sequence[str] = (),
    *,
    now_unix_s: float,
    reading: Reading | None = None,
) -> Report:
    """The report of what the selection chooses, or of a ``reading`` of it.

    Raises:
        ConfigurationError: there is no ledger, or none of this version.
        LedgerLost: it cannot be read.
        TooMuch: there would be more than ``report_reading.MOST_LINES``.
    """
    found = reading or await read(tables, selection, by)
    groups, tasks = found.groups, Tasks(found.spending, await _outcomes(tables, selection))
    total = Group()
    for group in groups.values():
        total.include(group)
    lines = [line(_named(by, key), group, tasks.figures(group.tasks)) for key, group in groups.items()] if by else []
    lines.sort(key=lambda one: (one.by.get("day", ""), -one.priced_cost_usd, -one.requests, tuple(one.by.values())))
    return Report(
        by=tuple(by),
        since=moment(selection.since_unix_s) if selection.since_unix_s is not None else None,
        until=moment(selection.until_unix_s) if selection.until_unix_s is not None else None,
        made=moment(now_unix_s),
        lines=tuple(lines),
        total=line({}, total, tasks.all_figures()),
        shadows=await shadow_spending(tables, selection),
    )


async def _outcomes(tables: LedgerTables, selection: Selection) -> Outcomes:
    """What is believed of tasks: the client's word, and a judge's where the client has none."""
    found: dict[TaskKey, tuple[bool | None, int]] = {
        task_key(tenant, task): (bool(success), 0)
        async for _, _, tenant, task, success in _all(tables, queries.JUDGED, selection, after_unix_s=-1.0, after_id="")
    }
    async for _, _, key, success, tools_pico, recovery_pico in _all(
        tables, queries.OUTCOMES, selection, after_tenant="", after_task=""
    ):
        judged = found.get(key, _NOBODY_SAID)[0]
        found[key] = (judged if success is None else bool(success), tools_pico + recovery_pico)
    return found


async def _all(tables: LedgerTables, query: str, selection: Selection, **first: Any) -> AsyncIterator[tuple[Any, ...]]:
    """All rows of a query by pages; its first columns are those that ``first`` names."""
    after = first
    while True:
        page = await tables.rows(query, **after, tenant=selection.tenant, most=PAGE_ROWS)
        for row in page:
            yield row
        if len(page) < PAGE_ROWS:
            return
        after = dict(zip(first, page[-1], strict=False))


def _named(by: Sequence[str], key: Key) -> dict[str, str]:
    values = [day_of(value) if name == "day" else str(value) for name, value in zip(by, key, strict=True)]
    return dict(zip(by, values, strict=True))
