import csv
import io
from collections import Counter, defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.accounts import report_text
from gateway.accounts.report import Report, make_report
from gateway.accounts.report_chart import draw
from gateway.accounts.report_line import Line
from gateway.accounts.report_parts import read_in_parts
from gateway.accounts.report_reading import TooMuch, read
from gateway.accounts.selection import DIMENSIONS, Selection
from gateway.clock import SystemClock
from gateway.judgement import JudgedAnswer, Judgement, Occasion
from gateway.price import Usage
from gateway.stores.judged_rows import JudgedRows
from gateway.task import Task
from gateway.types import Attempt, LedgerEntry, Outcome, Status

NOW_UNIX_S = 1_700_000_000.0
DAY_S = 86_400
MakeEntry = Callable[..., LedgerEntry]

attempts = st.builds(
    Attempt,
    backend=st.sampled_from(["groq", "vllm"]),
    model=st.sampled_from(["small", "large"]),
    status=st.sampled_from(Status),
    started_s=st.just(100.0),
    ended_s=st.floats(100.5, 200),
    span_id=st.just("0" * 16),
    first_token_s=st.none() | st.just(100.5),
    usage=st.builds(Usage, prompt_tokens=st.integers(0, 5000), output_tokens=st.integers(0, 5000)),
    cost_usd=st.none() | st.decimals(0, 3, places=12),
    error=st.sampled_from(["", "Outrun", "UpstreamFailed"]),
    last_token_s=st.none() | st.just(100.9),
    bursts=st.integers(0, 5),
)
requests = st.fixed_dictionaries(
    {
        "attempts": st.lists(attempts, max_size=3).map(tuple),
        "task": st.sampled_from(["", "t1", "t2", "t3"]),
        "tenant": st.sampled_from(["acme", "beta"]),
        "route": st.sampled_from(["r", "s"]),
        "status": st.sampled_from(Status),
        "day": st.integers(0, 2),
    }
)
outcomes = st.dictionaries(
    st.tuples(st.sampled_from(["acme", "beta"]), st.sampled_from(["t1", "t2", "t4"])),
    st.tuples(st.sampled_from([True, False, None]), st.decimals(0, 2, places=6)),
)


def _entry(make_entry: MakeEntry, number: int, drawn: dict[str, Any]) -> LedgerEntry:
    entry = make_entry(number, attempts=drawn["attempts"], route=drawn["route"])
    arrival = replace(
        entry.arrival,
        tenant=drawn["tenant"],
        task=Task(id=drawn["task"]) if drawn["task"] else None,
        received_unix_s=NOW_UNIX_S + drawn["day"] * DAY_S,
    )
    return replace(entry, arrival=arrival, outcome=Outcome(status=drawn["status"], http_status=200))


def _known(entry: LedgerEntry) -> Decimal:
    return sum((attempt.cost_usd for attempt in entry.attempts if attempt.cost_usd is not None), Decimal(0))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(
    drawn=st.lists(requests, max_size=12),
    told=outcomes,
    by=st.lists(st.sampled_from(DIMENSIONS), unique=True, max_size=3),
)
async def test_attempts_requests_tasks_and_the_report_add_up(
    open_books: Any, make_entry: MakeEntry, drawn: list[dict[str, Any]], told: dict[Any, Any], by: list[str]
) -> None:
    """To the pico-dollar, however it is broken down: nothing is lost, counted twice or negative."""
    entries = [_entry(make_entry, number, one) for number, one in enumerate(drawn)]
    with TemporaryDirectory() as folder:
        async with open_books(Path(folder) / "ledger.sqlite3") as books:
            await books.take(*entries)
            for (tenant, task), (success, tools_usd) in told.items():
                await books.judge(tenant, task, success, tool_cost_usd=tools_usd)
            reading = await read(books.tables, Selection(), by, page_rows=3)
            report = await make_report(books.tables, Selection(), by, now_unix_s=NOW_UNIX_S, reading=reading)
            tasks = {(one["tenant"], one["task"]) for one in drawn if one["task"]}
            accounts = {key: await books.book.account(*key) for key in tasks}
    total = report.total
    assert (len(entries), sum(len(entry.attempts) for entry in entries)) == (total.requests, total.attempts)
    assert sum(map(_known, entries)) == total.priced_cost_usd
    unpriced = sum(attempt.cost_usd is None for entry in entries for attempt in entry.attempts)
    assert (unpriced, total.priced_cost_usd if not unpriced else None) == (total.unpriced_attempts, total.cost_usd)
    for key, account in accounts.items():
        mine = [entry for entry in entries if (entry.arrival.tenant, entry.arrival.task) == (key[0], Task(id=key[1]))]
        extra = told.get(key, (None, Decimal(0)))[1]
        assert sum(map(_known, mine)) + extra == account.priced_cost_usd
        if account.total_cost_usd is not None:
            assert account.total_cost_usd == account.priced_cost_usd
    assert sum((account.priced_cost_usd for account in accounts.values()), Decimal(0)) == total.tasks.cost_usd
    _check_tasks(total, accounts, told)
    for name in ("requests", "served", "attempts", "retries", "prompt_tokens", "output_tokens", "priced_cost_usd",
                 "unpriced_attempts", "retry_cost_usd", "wasted_cost_usd"):  # fmt: skip
        parts = [getattr(line, name) for line in report.lines]
        assert not by or getattr(total, name) == sum(parts)
        assert all(part >= 0 for part in parts)
    assert total.wasted_cost_usd <= total.priced_cost_usd
    assert total.wasted_cost_usd == sum(total.wasted.values())


def _check_tasks(total: Line, accounts: dict[Any, Any], told: dict[Any, Any]) -> None:
    said = Counter(told.get(key, (None, None))[0] for key in accounts)
    assert (len(accounts), said[True], said[False], said[None]) == (
        total.tasks.tasks,
        total.tasks.succeeded,
        total.tasks.failed,
        total.tasks.unknown,
    )
    judged = [account for key, account in accounts.items() if told.get(key, (None, None))[0] is not None]
    if said[True]:
        per_success = float(sum(account.priced_cost_usd for account in judged)) / said[True]
        assert pytest.approx(per_success) == total.tasks.cost_per_success_at_least_usd
        unpriced = any(account.unpriced_attempts for account in judged)
        assert unpriced == (total.tasks.cost_per_success_usd is None)
    else:
        assert total.tasks.cost_per_success_at_least_usd is None


async def _filled(books: Any, make_entry: MakeEntry, make_attempt: Any) -> None:
    """Two routes: a cheap one that fails often, and a dear one that answers, sometimes after a retry."""
    lost = make_attempt(backend="vllm", status=Status.UPSTREAM_FAILED, cost_usd=Decimal("0.5"), error="UpstreamFailed")
    for number in range(8):
        task, dear = f"t{number}", number % 2
        served = make_attempt(backend="groq", cost_usd=Decimal(3 if dear else 1))
        tried = (lost, served) if number == 7 else (served,)
        entry = make_entry(number, attempts=tried, route="dear" if dear else "cheap")
        arrival = replace(entry.arrival, task=Task(id=task), received_unix_s=NOW_UNIX_S + number)
        await books.take(replace(entry, arrival=arrival))
        if number != 6:
            await books.judge("acme", task, bool(dear) or number == 0)


async def test_a_line_says_what_a_success_costs(books: Any, make_entry: MakeEntry, make_attempt: Any) -> None:
    """All judged tasks over the successes: a failure costs, too, and what nobody judged is in neither."""
    await _filled(books, make_entry, make_attempt)
    report = await make_report(books.tables, Selection(), ("route",), now_unix_s=NOW_UNIX_S)
    dear, cheap = report.lines
    assert ({"route": "dear"}, {"route": "cheap"}) == (dear.by, cheap.by)
    assert (4, 0, 0, 12.5 / 4, 1.0) == (
        dear.tasks.succeeded,
        dear.tasks.failed,
        dear.tasks.unknown,
        dear.tasks.cost_per_success_usd,
        dear.tasks.success_rate,
    )
    assert (1, 2, 1, 3.0, 1 / 3) == (
        cheap.tasks.succeeded,
        cheap.tasks.failed,
        cheap.tasks.unknown,
        cheap.tasks.cost_per_success_usd,
        cheap.tasks.success_rate,
    )
    assert (Decimal("0.5"), Decimal("0.5"), 1) == (dear.retry_cost_usd, dear.wasted["lost"], dear.retries)
    assert Decimal("0.5") == report.total.wasted_cost_usd


async def test_attempts_count_where_they_were_made(books: Any, make_entry: MakeEntry, make_attempt: Any) -> None:
    """The lost attempt is the other backend's; the request is that of who answered."""
    await _filled(books, make_entry, make_attempt)
    report = await make_report(books.tables, Selection(), ("backend",), now_unix_s=NOW_UNIX_S)
    found = {line.by["backend"]: line for line in report.lines}
    assert (8, 8, Decimal(16)) == (found["groq"].requests, found["groq"].attempts, found["groq"].cost_usd)
    assert (0, 1, Decimal("0.5")) == (found["vllm"].requests, found["vllm"].attempts, found["vllm"].cost_usd)


async def test_a_selection_is_a_report_of_its_own(books: Any, make_entry: MakeEntry, make_attempt: Any) -> None:
    """By time, from the first moment to before the last, and by what is named."""
    await _filled(books, make_entry, make_attempt)

    async def requests_of(**fields: Any) -> int:
        return (await make_report(books.tables, Selection(**fields), now_unix_s=NOW_UNIX_S)).total.requests

    assert 3 == await requests_of(since_unix_s=NOW_UNIX_S + 2, until_unix_s=NOW_UNIX_S + 5)
    assert 4 == await requests_of(route="cheap")
    assert 8 == await requests_of(tenant="acme", backend="groq", model="llama")
    assert 0 == await requests_of(tenant="beta")


async def test_a_request_that_was_judged_by_its_own_id_is_a_task(books: Any, make_entry: MakeEntry) -> None:
    """Those that nobody judged are none: nobody said that they were work to be done."""
    entry = make_entry(1)
    await books.take(replace(entry, arrival=replace(entry.arrival, id="req_1")), make_entry(2))
    await books.judge("acme", "req_1", success=True)
    total = (await make_report(books.tables, Selection(), now_unix_s=NOW_UNIX_S)).total
    assert (2, 1, 1) == (total.requests, total.tasks.tasks, total.tasks.succeeded)


async def test_a_report_can_be_read_by_people_and_programs(
    books: Any, make_entry: MakeEntry, make_attempt: Any, tmp_path: Path
) -> None:
    """The table has a line each and the total; CSV and JSON have every figure; the chart is a picture."""
    await _filled(books, make_entry, make_attempt)
    report = await make_report(books.tables, Selection(), ("route", "day"), now_unix_s=NOW_UNIX_S)
    table = report_text.as_table(report).splitlines()
    assert ["route", "day"] == table[2].split()[:2]
    assert "2023-11-14" in table[3]
    assert table[5].startswith("total")
    rows = list(csv.DictReader(io.StringIO(report_text.as_csv(report))))
    assert ("dear", "4", "12.5") == (rows[0]["route"], rows[0]["requests"], rows[0]["cost_usd"])
    assert ("", "8", "16.5") == (rows[2]["route"], rows[2]["requests"], rows[2]["cost_usd"])
    again = msgspec.json.decode(report_text.as_json(report))
    assert 16.5 == again["total"]["cost_usd"]
    draw(report, tmp_path / "report.png")
    assert b"\x89PNG" == (tmp_path / "report.png").read_bytes()[:4]


@pytest.mark.parametrize(
    ("usd", "shown"),
    [("0", "0.0000"), ("1234.5", "1,234.5000"), ("0.01", "0.0100"), ("0.000072", "0.000072"), ("1e-12", "0.000000")],
)
def test_little_money_is_shown_too(usd: str, shown: str) -> None:
    """A cent and more has four decimals."""
    assert shown == report_text.dollars(Decimal(usd))


async def test_quantiles_are_within_a_step(books: Any, make_entry: MakeEntry) -> None:
    """A hundred answers of 1 to 100 seconds: each quantile is at most 1.5 % off."""
    entries = [make_entry(number, ended_s=100.0 + number) for number in range(1, 101)]
    await books.take(*entries)
    found = (await make_report(books.tables, Selection(), now_unix_s=NOW_UNIX_S)).total.e2e_s
    assert found is not None
    for share, value in ((50, found.p50), (90, found.p90), (99, found.p99)):
        assert pytest.approx(share, rel=0.016) == value


def _of_report(report: Report) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for line in report.lines:
        found[line.by["class"]] += line.requests
    return found


async def test_classes_are_those_of_the_forecast(books: Any, make_entry: MakeEntry) -> None:
    """What was refused before it was forecast has none."""
    await books.take(make_entry(1), make_entry(2, forecast=None))
    report = await make_report(books.tables, Selection(), ("class",), now_unix_s=NOW_UNIX_S)
    assert {"short_in_short_out": 1, "": 1} == _of_report(report)


async def test_parts_that_several_processes_read_are_the_whole(
    open_books: Any, make_entry: MakeEntry, make_attempt: Any, tmp_path: Path
) -> None:
    """The same report, whoever counts: a task that is in two parts is one."""
    place = tmp_path / "ledger.sqlite3"
    async with open_books(place) as books:
        await _filled(books, make_entry, make_attempt)
        again = replace(make_entry(9).arrival, task=Task(id="t1"), received_unix_s=NOW_UNIX_S + 9)
        await books.take(replace(make_entry(9), arrival=again))
        alone = await make_report(books.tables, Selection(), ("route",), now_unix_s=NOW_UNIX_S)
        reading = await read_in_parts(place, books.tables, Selection(), ("route",), least=2)
        parted = await make_report(books.tables, Selection(), ("route",), now_unix_s=NOW_UNIX_S, reading=reading)
    assert alone == parted


async def test_too_many_lines_or_tasks_are_refused(
    books: Any, make_entry: MakeEntry, make_attempt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before memory is full of them."""
    await _filled(books, make_entry, make_attempt)
    with pytest.raises(TooMuch, match="more than 7 tasks"):
        await read(books.tables, Selection(), (), most_tasks=7)
    monkeypatch.setattr("gateway.accounts.report_reading.MOST_LINES", 1)
    with pytest.raises(TooMuch, match="more than 1 lines"):
        await read(books.tables, Selection(), ("route",))


async def test_where_the_client_says_nothing_a_judge_is_believed(books: Any, make_entry: MakeEntry) -> None:
    """The latest one; a shadow's answer and one that went further are no outcome, and the client's word is more."""
    rows = JudgedRows(books.tables, clock=SystemClock(), keep_s=None)
    entries = [make_entry(number) for number in range(5)]
    await books.take(*[
        replace(entry, arrival=replace(entry.arrival, task=Task(id=f"t{n}") if n else None))
        for n, entry in enumerate(entries)
    ])  # fmt: skip
    said = [
        ("req-0", "", Occasion.SERVED, True, ""),
        ("req-1", "t1", Occasion.SERVED, True, ""),
        ("req-2", "t2", Occasion.SERVED, False, ""),
        ("req-3", "t3", Occasion.SHADOW, True, ""),
        ("req-4", "t4", Occasion.CASCADE, False, "json"),
    ]
    for at, (request, task, occasion, success, escalated_for) in enumerate(said):
        rows.take_judged(
            JudgedAnswer(
                request_id=request,
                tenant="acme",
                task=task,
                route="default",
                backend="groq",
                model="llama",
                occasion=occasion,
                judgement=Judgement(success=success),
                escalated_for=escalated_for,
                ended_unix_s=NOW_UNIX_S + at,
            )
        )
    await rows.close()
    await books.judge("acme", "t1", success=False)
    await books.judge("acme", "t2", success=None, tool_cost_usd=Decimal(1))
    tasks = (await make_report(books.tables, Selection(), now_unix_s=NOW_UNIX_S)).total.tasks
    assert (5, 1, 2, 2) == (tasks.tasks, tasks.succeeded, tasks.failed, tasks.unknown)
    assert Decimal(1) == tasks.tool_and_recovery_cost_usd
