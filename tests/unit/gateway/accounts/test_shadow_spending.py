from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gateway.accounts.provider_usage import read_columns, read_usage
from gateway.accounts.reconciliation import reconcile
from gateway.accounts.report import make_report
from gateway.accounts.report_text import as_table
from gateway.accounts.selection import Selection
from gateway.judgement import JudgedAnswer, Occasion, cannot_say, failed, passed
from gateway.price import Usage
from gateway.stores.judged_rows import JudgedRows

SHADOW = JudgedAnswer(
    request_id="req-1",
    tenant="acme",
    task="",
    route="main",
    backend="alpha",
    model="gpt-4o",
    occasion=Occasion.SHADOW,
    judgement=passed(),
    usage=Usage(prompt_tokens=1000, cached_tokens=0, output_tokens=5),
    cost_usd=Decimal("0.25"),
    received_unix_s=1_700_000_000.0,
)


async def _keep(books: Any, clock: Any, *judged: JudgedAnswer) -> None:
    rows = JudgedRows(books.tables, clock=clock, keep_s=None)
    for one in judged:
        rows.take_judged(one)
    await rows.close()


async def test_what_shadows_cost_is_in_a_report_apart(books: Any, make_entry: Any, clock: Any) -> None:
    """In no line and in no total; by the same selection."""
    await books.take(make_entry(1))
    await _keep(
        books,
        clock,
        SHADOW,
        replace(SHADOW, judgement=failed("no"), tenant="other"),
        replace(SHADOW, judgement=cannot_say("who knows"), received_unix_s=1_800_000_000.0),
        replace(SHADOW, occasion=Occasion.SERVED, cost_usd=Decimal(9)),
    )
    report = await make_report(books.tables, Selection(), now_unix_s=0.0)
    assert (3, 1, 1, Decimal("0.75")) == (
        report.shadows.copies,
        report.shadows.passed,
        report.shadows.failed,
        report.shadows.cost_usd,
    )
    assert Decimal("0.00012") == report.total.cost_usd
    assert "3 copies went to shadows (1 passed, 1 failed) for $0.7500, which is in no figure above." in as_table(report)
    for selection, copies in (
        (Selection(tenant="acme"), 2),
        (Selection(until_unix_s=1_750_000_000.0), 2),
        (Selection(since_unix_s=1_750_000_000.0), 1),
        (Selection(backend="beta"), 0),
        (Selection(route="main", model="gpt-4o"), 3),
    ):
        assert copies == (await make_report(books.tables, selection, now_unix_s=0.0)).shadows.copies


async def test_an_unknown_price_of_a_shadow_is_unknown(books: Any, clock: Any) -> None:
    """What is known is told as the least."""
    await _keep(books, clock, SHADOW, replace(SHADOW, cost_usd=None))
    report = await make_report(books.tables, Selection(), now_unix_s=0.0)
    assert (None, Decimal("0.25")) == (report.shadows.cost_usd, report.shadows.priced_cost_usd)
    assert "for >=$0.2500" in as_table(report)


async def test_a_providers_bill_has_the_shadows_too(books: Any, clock: Any, tmp_path: Path) -> None:
    """So they are counted where the ledger is compared with it."""
    await _keep(books, clock, SHADOW, replace(SHADOW, occasion=Occasion.CASCADE))
    path = tmp_path / "usage.csv"
    path.write_text(
        "start_time,end_time,start_time_iso,end_time_iso,project_id,num_model_requests,model,batch,"
        "input_tokens,output_tokens,input_cached_tokens\n1699920000,1700006400,,,p,1,gpt-4o,False,1000,5,0\n"
    )
    found = await reconcile(books.tables, Selection(), read_usage(path, read_columns("openai")))
    assert ((), 1) == (found.differences, found.same)
