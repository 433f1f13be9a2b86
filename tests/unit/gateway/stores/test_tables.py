from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.stores.ledger_lost import LedgerLost
from gateway.stores.sql import SqlLedger
from gateway.stores.tables import LedgerTables, open_tables

COST = "SELECT CAST(sum(cost_pico_usd) AS BIGINT), count(*) FROM requests WHERE tenant = :tenant"
SINCE = """
    SELECT id FROM requests
    WHERE CAST(:since_unix_s AS DOUBLE PRECISION) IS NULL OR received_unix_s >= CAST(:since_unix_s AS DOUBLE PRECISION)
    ORDER BY seq
"""
DAYS = "SELECT CAST(floor(received_unix_s / 86400) AS BIGINT) AS day, count(*) FROM requests GROUP BY 1"
SHARES = """
    SELECT count(*) FILTER (WHERE status = 'ok'), CAST(round(avg(duration_s) * 1000) AS BIGINT), max(attempts) / 2
    FROM requests
"""
RENAME = "UPDATE requests SET route = :route WHERE id = :id"


@pytest.fixture
async def tables(ledger_place: Path | str, tmp_path: Path, make_entry: Any) -> AsyncIterator[LedgerTables]:
    """The tables of a ledger with three requests, in each kind of database."""
    ledger = SqlLedger(ledger_place, spool=tmp_path / "spool")
    ledger.start()
    ledger.take([make_entry(n) for n in range(3)])
    await ledger.close()
    tables = open_tables(ledger_place)
    yield tables
    await tables.close()


async def test_numbers_come_as_python_has_them(tables: LedgerTables) -> None:
    """Sums of money are whole, in every database."""
    ((cost, count),) = await tables.rows(COST, tenant="acme")
    assert (360_000_000, 3, int, int) == (cost, count, type(cost), type(count))
    assert [(None, 0)] == await tables.rows(COST, tenant="nobody")


async def test_a_value_may_be_left_open(tables: LedgerTables) -> None:
    """A moment that is not given bounds nothing."""
    assert ["req-0", "req-1", "req-2"] == [row[0] for row in await tables.rows(SINCE, since_unix_s=None)]
    assert 3 == len(await tables.rows(SINCE, since_unix_s=1_700_000_000.0))
    assert [] == await tables.rows(SINCE, since_unix_s=1_700_000_000.5)


async def test_days_and_shares_are_counted_alike(tables: LedgerTables) -> None:
    """A day ends at its last moment, not at noon."""
    assert [(1_700_000_000 // 86_400, 3)] == await tables.rows(DAYS)
    assert [(3, 2500, 0)] == await tables.rows(SHARES)


async def test_what_is_written_together_is_there_together(tables: LedgerTables) -> None:
    """Each statement says how many rows it changed; where one fails, none is done."""
    changed = await tables.write((RENAME, {"route": "a", "id": "req-0"}), (RENAME, {"route": "b", "id": "none"}))
    assert [1, 0] == changed
    with pytest.raises(LedgerLost):
        await tables.write((RENAME, {"route": "c", "id": "req-0"}), (RENAME, {"route": None, "id": "req-1"}))
    assert [("a",), ("default",), ("default",)] == await tables.rows("SELECT route FROM requests ORDER BY seq")


async def test_reading_changes_nothing(tables: LedgerTables) -> None:
    """A question is no way to write."""
    with pytest.raises(LedgerLost):
        await tables.rows("DELETE FROM requests")
    assert [(3,)] == await tables.rows("SELECT count(*) FROM requests")


async def test_a_wrong_query_is_told(tables: LedgerTables) -> None:
    """And the next one is answered."""
    with pytest.raises(LedgerLost):
        await tables.rows("SELECT nothing FROM nowhere")
    assert [(3,)] == await tables.rows("SELECT count(*) FROM requests")
