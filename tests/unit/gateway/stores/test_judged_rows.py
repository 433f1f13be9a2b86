from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.forecast import RequestKind
from gateway.judgement import JudgedAnswer, Occasion, cannot_say, failed, passed
from gateway.price import Usage
from gateway.stores.judged_rows import JudgedRows
from gateway.stores.kept_verdicts import KeptVerdict, kept_verdicts
from gateway.stores.ledger_lost import LedgerLost
from gateway.stores.sql import SqlLedger
from gateway.stores.tables import open_tables

JUDGED = JudgedAnswer(
    request_id="req-1",
    tenant="acme",
    task="t-1",
    route="main",
    backend="alpha",
    model="small",
    occasion=Occasion.CASCADE,
    judgement=failed("valid_json: no valid JSON"),
    judgements=(("valid_json", failed("no valid JSON")), ("http", cannot_say("no reply within 5 s"))),
    attempt=1,
    kind=RequestKind.SHORT_IN_LONG_OUT,
    escalated_for="valid_json",
    usage=Usage(prompt_tokens=7, output_tokens=20),
    cost_usd=Decimal("0.000123"),
    answer_s=1.5,
    received_unix_s=1.7e9,
    ended_unix_s=1.7e9 + 2,
)


@pytest.fixture
async def tables(ledger_place: Path | str, tmp_path: Path) -> AsyncIterator[Any]:
    """The tables of a new ledger, in each kind of database."""
    ledger = SqlLedger(ledger_place, spool=tmp_path / "spool")
    ledger.start()
    await ledger.close()
    opened = open_tables(ledger_place)
    yield opened
    await opened.close()


class Away:
    """A database that is away for some writes."""

    def __init__(self, tables: Any, times: int) -> None:
        self._tables = tables
        self.times = times

    async def write(self, *statements: Any) -> list[int]:
        """See ``LedgerTables``."""
        self.times -= 1
        if self.times >= 0:
            raise LedgerLost("away")
        return await self._tables.write(*statements)


async def test_an_answer_and_what_each_judge_said_are_kept(tables: Any, clock: Any) -> None:
    """And read back, in the order in which they fell."""
    rows = JudgedRows(tables, clock=clock, keep_s=None)
    shadow = replace(
        JUDGED, occasion=Occasion.SHADOW, attempt=0, judgement=passed(), judgements=(), escalated_for="", usage=None
    )
    rows.take_judged(replace(shadow, ended_unix_s=1.7e9 + 9, cost_usd=None))
    rows.take_judged(JUDGED)
    await rows.close()
    first, second = await kept_verdicts(tables, "req-1", where="here")
    expected = KeptVerdict(
        occasion="cascade",
        attempt=1,
        backend="alpha",
        model="small",
        success=False,
        score=0.0,
        reason="valid_json: no valid JSON",
        escalated_for="valid_json",
        judges=(("valid_json", False, "no valid JSON"), ("http", None, "no reply within 5 s")),
    )
    assert expected == first
    assert ("shadow", 0, True, ()) == (second.occasion, second.attempt, second.success, second.judges)
    query = "SELECT kind, prompt_tokens, output_tokens, cost_pico_usd, task FROM judged_answers ORDER BY judged_unix_s"
    assert [("short_in_long_out", 7, 20, 123_000_000, "t-1"), ("short_in_long_out", None, None, None, "t-1")] == (
        await tables.rows(query)
    )
    assert () == await kept_verdicts(tables, "req-2", where="here")


async def test_a_database_that_was_away_gets_them_when_it_is_back(tables: Any, clock: Any) -> None:
    """Nothing is lost meanwhile, and nothing is written twice."""
    rows = JudgedRows(Away(tables, 3), clock=clock, keep_s=None, retry_s=1.0)
    for number in range(250):
        rows.take_judged(replace(JUDGED, request_id=f"req-{number}"))
    await rows.close()
    assert [(250,)] == await tables.rows("SELECT count(*) FROM judged_answers")
    assert [(500,)] == await tables.rows("SELECT count(*) FROM verdicts")
    assert 0 == rows.dropped


async def test_what_waits_is_bounded_and_what_is_lost_is_counted(tables: Any, hand_clock: Any) -> None:
    """A database that stays away costs rows, and no memory."""
    rows = JudgedRows(Away(tables, 10**9), clock=hand_clock, keep_s=None, capacity=10)
    for _ in range(15):
        rows.take_judged(JUDGED)
    assert 5 == rows.dropped
    await hand_clock.asleep.wait()
    rows._writer.cancel()
    await rows.close()
    assert (15, 0) == (rows.dropped, len(rows._waiting))


async def test_rows_go_after_their_time(tables: Any, clock: Any) -> None:
    """With what the judges said."""
    clock.now = 0.0
    old = replace(JUDGED, request_id="old", received_unix_s=clock.unix_s() - 1000)
    rows = JudgedRows(tables, clock=clock, keep_s=None)
    rows.take_judged(old)
    await rows.close()
    rows = JudgedRows(tables, clock=clock, keep_s=500.0)
    rows.take_judged(replace(JUDGED, request_id="new", received_unix_s=clock.unix_s()))
    await rows.close()
    assert [("new",)] == await tables.rows("SELECT request_id FROM judged_answers")
    assert [(2,)] == await tables.rows("SELECT count(*) FROM verdicts")


async def test_what_no_table_can_hold_is_kept_as_far_as_it_goes(tables: Any, clock: Any) -> None:
    """Somebody's own judge or backend may say anything; one row must not hold up the others."""
    rows = JudgedRows(tables, clock=clock, keep_s=None)
    odd = replace(JUDGED, usage=Usage(prompt_tokens=2**70), judgement=failed("a\0b\ud800c" + "x" * 500), judgements=())
    rows.take_judged(odd)
    rows.take_judged(replace(JUDGED, ended_unix_s=1.7e9 + 9))
    await rows.close()
    (first, second) = await tables.rows("SELECT prompt_tokens, reason FROM judged_answers ORDER BY judged_unix_s")
    assert (2**63 - 1, "ab?c", 255) == (first[0], first[1][:4], len(first[1]))
    assert (7, 0) == (second[0], rows.dropped)
