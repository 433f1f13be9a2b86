import logging
import sqlite3
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.errors import ConfigurationError
from gateway.price import Usage
from gateway.stores.database import open_database
from gateway.stores.ledger_writer import BATCH_REQUESTS
from gateway.stores.migrations import MIGRATIONS, SCHEMA_VERSION
from gateway.stores.sql import SqlLedger
from gateway.stores.task_key import task_key
from gateway.stores.time_steps import step_of
from gateway.task import Task
from gateway.types import Attempt, LedgerEntry, Outcome, Status

MakeEntry = Callable[..., LedgerEntry]
MakeAttempt = Callable[..., Attempt]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger lies; the folder does not exist yet."""
    return tmp_path / "state" / "ledger.db"


@pytest.fixture
async def ledger(path: Path) -> AsyncIterator[SqlLedger]:
    """A started ledger, closed at the end."""
    ledger = SqlLedger(path, retry_s=0.01)
    ledger.start()
    yield ledger
    await ledger.close()


async def test_a_row_tells_the_task_who_served_and_how_fast_its_tokens_came(
    ledger: SqlLedger, make_entry: MakeEntry, make_attempt: MakeAttempt
) -> None:
    """Of a race the one that answered serves, wherever it began; tokens may come several at once."""
    served = make_attempt(backend="groq", first_token_s=100.5, last_token_s=102.5, bursts=11)
    outrun = make_attempt(backend="vllm", status=Status.CLIENT_GONE, first_token_s=None, last_token_s=None)
    entry = make_entry(1, attempts=(served, outrun))
    entry = replace(entry, arrival=replace(entry.arrival, task=Task(id="run-7", stage="plan")))
    ledger.take([entry])
    assert await ledger.flush()
    (row,) = await ledger.find("req-1")
    assert ("run-7", "plan", "groq", task_key("acme", "run-7"), step_of(2 / 50), step_of(2 / 10), [1, 0]) == (
        row["task"],
        row["stage"],
        row["backend"],
        row["task_key"],
        row["tpot_step"],
        row["itl_step"],
        [attempt["serves"] for attempt in row["attempts_made"]],
    )


async def test_of_answers_that_came_whole_the_last_one_served(
    ledger: SqlLedger, make_entry: MakeEntry, make_attempt: MakeAttempt
) -> None:
    """A cascade rejects whole answers; where its last step fails, nobody was served, and that step bears it."""
    cheap, strong = make_attempt(backend="cheap"), make_attempt(backend="strong")
    failed = make_attempt(backend="strong", status=Status.UPSTREAM_FAILED, usage=None)
    none = Outcome(status=Status.UPSTREAM_FAILED, http_status=502)
    ledger.take([make_entry(1, attempts=(cheap, strong)), make_entry(2, attempts=(cheap, failed), outcome=none)])
    assert await ledger.flush()
    for request_id in ("req-1", "req-2"):
        (row,) = await ledger.find(request_id)
        assert ("strong", [0, 1]) == (row["backend"], [attempt["serves"] for attempt in row["attempts_made"]])


async def test_keeps_a_row_a_request_and_a_row_an_attempt(
    ledger: SqlLedger, make_entry: MakeEntry, make_attempt: MakeAttempt
) -> None:
    """What was forecast, used, paid and how it ended can be read again, by request id."""
    failed = make_attempt(
        backend="vllm", status=Status.UPSTREAM_FAILED, usage=None, cost_usd=Decimal(0), error="UpstreamFailed",
        upstream_status=503, first_token_s=None, started_s=100.0, ended_s=100.25,
    )  # fmt: skip
    ledger.take([make_entry(1), make_entry(2, attempts=(failed, make_attempt()))])
    assert await ledger.flush()
    (request,) = await ledger.find("req-2")
    attempts = request.pop("attempts_made")
    assert {
        "seq": 2, "id": "req-2", "received_unix_s": 1_700_000_000.0, "tenant": "acme", "operation": "chat",
        "model": "fast", "route": "default", "status": "ok", "http_status": 200, "finish_reason": "stop", "error": "",
        "stream": 1, "forecast_prompt_tokens": 90, "forecast_output_tokens_p50": 50, "forecast_output_tokens_p90": 200,
        "prompt_tokens": 100, "cached_tokens": 40, "output_tokens": 51, "ttft_s": 0.5, "duration_s": 2.5,
        "cost_pico_usd": 120_000_000, "attempts": 2, "trace_id": f"{3:032x}", "unverified_user": "",
        "task": "", "stage": "", "task_key": None, "backend": "groq", "backend_model": "llama",
        "ttft_step": -24, "e2e_step": 31, "tpot_step": None, "itl_step": None, "cache": "", "saved_pico_usd": None,
        "guards": "", "decision": None, "blocks": None,
    } == request  # fmt: skip
    assert [
        {
            "request_seq": 2, "n": 1, "backend": "vllm", "model": "llama", "status": "upstream_failed",
            "error": "UpstreamFailed", "upstream_status": 503, "started_s": 0.0, "first_token_s": None,
            "ended_s": 0.25, "prompt_tokens": None, "cached_tokens": None, "output_tokens": None,
            "reasoning_tokens": None, "estimated": None, "cost_pico_usd": 0,
            "last_token_s": None, "bursts": 0, "serves": 0, "cache_write_tokens": None,
            "answered_model": "", "cost_source": "", "cost_doubts": "", "stated_pico_usd": None, "units": "",
        },
        {
            "request_seq": 2, "n": 2, "backend": "groq", "model": "llama", "status": "ok",
            "error": "", "upstream_status": None, "started_s": 0.25, "first_token_s": 0.5,
            "ended_s": 2.5, "prompt_tokens": 100, "cached_tokens": 40, "output_tokens": 51,
            "reasoning_tokens": 7, "estimated": 0, "cost_pico_usd": 120_000_000,
            "last_token_s": None, "bursts": 0, "serves": 1, "cache_write_tokens": 0,
            "answered_model": "", "cost_source": "", "cost_doubts": "", "stated_pico_usd": None, "units": "",
        },
    ] == attempts  # fmt: skip


async def test_refused_request_has_a_row(ledger: SqlLedger, make_entry: MakeEntry) -> None:
    """What never was is NULL, not zero."""
    outcome = Outcome(status=Status.REJECTED, http_status=400, error="InvalidRequest")
    ledger.take([make_entry(request=None, route="", forecast=None, attempts=(), outcome=outcome)])
    await ledger.flush()
    (row,) = await ledger.find("req-0")
    assert ("rejected", None, None, None, None, [], 0) == (
        row["status"], row["model"], row["stream"], row["forecast_prompt_tokens"], row["ttft_s"], row["attempts_made"],
        row["cost_pico_usd"],
    )  # fmt: skip


async def test_unknown_price_is_null(ledger: SqlLedger, make_entry: MakeEntry, make_attempt: MakeAttempt) -> None:
    """Unknown is not free."""
    ledger.take([make_entry(attempts=(make_attempt(cost_usd=None),))])
    await ledger.flush()
    (row,) = await ledger.find("req-0")
    assert row["cost_pico_usd"] is None


async def test_repeated_id_costs_no_row(ledger: SqlLedger, make_entry: MakeEntry) -> None:
    """Ids may come from clients; two requests with the same one are two rows."""
    ledger.take([make_entry(7), make_entry(7)])
    await ledger.flush()
    assert (2, 2) == (await ledger.count(), len(await ledger.find("req-7")))


async def test_monstrous_values_are_cut_to_size(
    ledger: SqlLedger, make_entry: MakeEntry, make_attempt: MakeAttempt
) -> None:
    """Absurd token counts, endless names and half characters neither break the writer nor lose the row."""
    entry = make_entry(attempts=(make_attempt(usage=Usage(prompt_tokens=10**30), cost_usd=Decimal("1e30")),))
    request = replace(entry.request, model="m\ud800" * 1000, unverified_user="u" * 1000)
    ledger.take([replace(entry, request=request), make_entry(1)])
    assert await ledger.flush()
    (row,) = await ledger.find("req-0")
    assert (128, 256, 2**63 - 1, 2) == (
        len(row["unverified_user"]), len(row["model"]), row["prompt_tokens"], await ledger.count()
    )  # fmt: skip


async def test_bad_row_does_not_hold_up_the_others(
    ledger: SqlLedger, make_entry: MakeEntry, caplog: pytest.LogCaptureFixture
) -> None:
    """A row that the table refuses is counted as lost; those around it are kept."""
    broken = make_entry(2, outcome=Outcome(status=Status.OK, http_status="teapot"))
    ledger.take([make_entry(1), broken, make_entry(3)])
    assert await ledger.flush()
    assert (2, 1) == (await ledger.count(), ledger.dropped)
    assert "lost the rows of 1 requests" in caplog.text


async def test_close_writes_what_waits(path: Path, make_entry: MakeEntry) -> None:
    """More than one batch, put right before the shutdown, is all there afterwards; closing twice is fine."""
    ledger = SqlLedger(path)
    ledger.start()
    ledger.take([make_entry(number) for number in range(BATCH_REQUESTS * 2 + 5)])
    await ledger.close()
    await ledger.close()
    assert BATCH_REQUESTS * 2 + 5 == await ledger.count()
    assert 0 == ledger.dropped


async def test_what_comes_after_the_end_is_counted(path: Path, make_entry: MakeEntry) -> None:
    """Nothing can be written any more, and that is not passed over in silence."""
    ledger = SqlLedger(path)
    ledger.start()
    await ledger.close()
    ledger.take([make_entry()])
    assert (0, 1) == (await ledger.count(), ledger.dropped)


async def test_rows_survive_a_restart(path: Path, make_entry: MakeEntry) -> None:
    """The file is opened again where it was left."""
    for number in range(2):
        ledger = SqlLedger(path)
        ledger.start()
        ledger.take([make_entry(number)])
        await ledger.close()
    assert 2 == await ledger.count()


async def test_two_processes_share_a_file(ledger: SqlLedger, path: Path, make_entry: MakeEntry) -> None:
    """A second writer on the same file neither overwrites nor loses."""
    other = SqlLedger(path)
    other.start()
    for number in range(20):
        ledger.take([make_entry(number)])
        other.take([make_entry(100 + number)])
    await other.close()
    assert await ledger.flush()
    assert (40, 0, 0) == (await ledger.count(), ledger.dropped, other.dropped)


async def test_file_is_private(ledger: SqlLedger, path: Path, make_entry: MakeEntry) -> None:
    """Who asked what is the owner's business, in the journal files of SQLite too."""
    ledger.take([make_entry()])
    await ledger.flush()
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600, "spool": 0o700} == modes
    assert [0o600] == [stat.S_IMODE(file.stat().st_mode) for file in (path.parent / "spool").iterdir()]


async def test_no_words_on_disk(path: Path, marked_entry: LedgerEntry, marker: str) -> None:
    """Not one byte of prompt, answer or quoting error reaches the file, even if an entry still has them."""
    ledger = SqlLedger(path)
    ledger.start()
    ledger.take([marked_entry])
    files = [file for file in path.parent.rglob("*") if file.is_file()]
    assert [] == [file.name for file in files if marker.encode() in file.read_bytes()]
    await ledger.close()
    assert 1 == await ledger.count()
    assert [] == [
        file.name for file in path.parent.iterdir() if file.is_file() and marker.encode() in file.read_bytes()
    ]


async def test_locked_file_is_tried_again(
    ledger: SqlLedger, path: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While somebody else holds the file rows wait, and they are written when it is free; nothing is lost."""
    monkeypatch.setattr("gateway.stores.database.BUSY_S", 0.01)
    with closing(sqlite3.connect(path, isolation_level=None)) as intruder:
        intruder.execute("BEGIN EXCLUSIVE")
        ledger.take([make_entry(1)])
        assert not await ledger.flush(timeout_s=0.1)
        intruder.execute("COMMIT")
    assert await ledger.flush()
    assert (1, 0) == (await ledger.count(), ledger.dropped)


async def test_dead_disk_is_counted_and_told_once(
    path: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While the disk takes nothing, serving goes on: rows wait up to the capacity, the rest is counted, quietly."""
    monkeypatch.setattr("gateway.stores.database.BUSY_S", 0.01)
    ledger = SqlLedger(path, spool_bytes=0, capacity=3, retry_s=0.01)
    ledger.start()
    with closing(sqlite3.connect(path, isolation_level=None)) as intruder:
        intruder.execute("BEGIN EXCLUSIVE")
        for number in range(10):
            ledger.take([make_entry(number)])
        assert 7 == ledger.dropped
        await ledger.flush(timeout_s=0.1)
        await ledger.close()
    assert (0, 10) == (await ledger.count(), ledger.dropped)
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) <= 2


async def test_full_disk_loses_nothing_once_there_is_room(
    path: Path, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own "database or disk is full" is borne like any other failure of the disk."""
    full = [True]

    def open_small(where: Path) -> sqlite3.Connection:
        connection = open_database(where)
        if full[0]:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr("gateway.stores.ledger_file.open_database", open_small)
    ledger = SqlLedger(path, retry_s=0.01)
    ledger.start()
    ledger.take([make_entry(number) for number in range(500)])
    assert not await ledger.flush(timeout_s=0.1)
    full[0] = False
    assert await ledger.flush()
    await ledger.close()
    assert (500, 0) == (await ledger.count(), ledger.dropped)


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_damaged_file_is_refused_at_the_start(path: Path, content: bytes) -> None:
    """A file that is no ledger stops the start with its name and a way out, and is left as it is."""
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"ledger\.db: the ledger cannot be used") as caught:
        SqlLedger(path).start()
    assert "move the file away" in str(caught.value)
    assert content == path.read_bytes()


def test_newer_version_is_refused_at_the_start(path: Path) -> None:
    """An older program does not write into a newer one's tables."""
    open_database(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(ConfigurationError, match="a newer headrace wrote it"):
        SqlLedger(path).start()


def test_place_that_cannot_be_is_refused_at_the_start(tmp_path: Path) -> None:
    """A folder in the place of the file is a mistake of the configuration."""
    with pytest.raises(ConfigurationError, match="the ledger cannot be opened"):
        SqlLedger(tmp_path).start()


async def test_takes_out_rows_past_their_time_with_their_attempts(
    path: Path, make_entry: MakeEntry, clock: Any
) -> None:
    """A ledger that runs for years does not fill the disk; what is young enough stays."""
    ledger = SqlLedger(path, keep_s=3600, now_s=clock.now_s)
    ledger.start()
    for name, age_s in {"old": 0.0, "young": 1.0, "now": 3600.5}.items():
        clock.now = age_s
        await _write(ledger, make_entry, name, age_s)
    await ledger.close()
    with closing(sqlite3.connect(path)) as connection:
        assert [("young",), ("now",)] == connection.execute("SELECT id FROM requests ORDER BY seq").fetchall()
        assert [(2,), (3,)] == connection.execute("SELECT DISTINCT request_seq FROM attempts").fetchall()


@pytest.mark.parametrize("restarted", [True, False])
async def test_a_wall_clock_that_jumps_ahead_deletes_nothing(
    path: Path, make_entry: MakeEntry, clock: Any, restarted: bool
) -> None:
    """Ten years in a moment, before the first row of a process or after it, make no row old."""
    ledger = SqlLedger(path, keep_s=3600, now_s=clock.now_s)
    ledger.start()
    await _write(ledger, make_entry, "before", 0)
    if restarted:
        await ledger.close()
        ledger = SqlLedger(path, keep_s=3600, now_s=clock.now_s)
        ledger.start()
    for name in ("ahead", "still ahead"):
        await _write(ledger, make_entry, name, 3e8)
    clock.now += 3599
    await _write(ledger, make_entry, "back", 3599)
    await ledger.close()
    assert 4 == await ledger.count()


async def _write(ledger: SqlLedger, make_entry: MakeEntry, name: str, age_s: float) -> None:
    """One row, so many seconds after the first."""
    entry = make_entry()
    arrival = replace(entry.arrival, id=name, received_unix_s=entry.arrival.received_unix_s + age_s)
    ledger.take([replace(entry, arrival=arrival)])
    assert await ledger.flush()


async def test_an_older_version_becomes_this_one_and_goes_on(path: Path, make_entry: MakeEntry) -> None:
    """Its rows have no decision and no task; who served them is what their last attempt says."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as older:
        for statement in MIGRATIONS[0]:
            older.execute(statement)
        request = (1, "req-1", 0.0, "acme", "chat", "fast", "r", "ok", 200, "stop", "", 1, *(0,) * 6, None, 1.0, 0, 2)
        older.execute("INSERT INTO requests VALUES (" + "?, " * 22 + "'', '')", request)
        for n, backend in ((1, "vllm"), (2, "groq")):
            attempt = (1, n, backend, "llama", "ok", "", None, 0.0, None, 1.0, *(None,) * 5, 0)
            older.execute("INSERT INTO attempts VALUES (" + "?, " * 15 + "?)", attempt)
        older.execute("PRAGMA user_version = 1")
    ledger = SqlLedger(path)
    ledger.start()
    ledger.take([make_entry(2)])
    await ledger.close()
    with closing(sqlite3.connect(path)) as connection:
        assert [(SCHEMA_VERSION,)] == connection.execute("PRAGMA user_version").fetchall()
        assert [("req-1", "groq", "llama", "", None), ("req-2", "groq", "llama", "", None)] == connection.execute(
            "SELECT id, backend, backend_model, task, decision FROM requests"
        ).fetchall()
        assert [(1, 0), (2, 1)] == connection.execute(
            "SELECT n, serves FROM attempts WHERE request_seq = 1 ORDER BY n"
        ).fetchall()
