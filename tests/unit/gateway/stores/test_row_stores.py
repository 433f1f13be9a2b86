import asyncio
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.errors import ConfigurationError
from gateway.stores.migrations import SCHEMA_VERSION
from gateway.stores.pruning_clock import PruningClock
from gateway.stores.row_store import RowStore
from gateway.stores.rows import rows_of
from gateway.stores.spool import Batch, Spool
from gateway.stores.sql import SqlLedger, _open_store
from gateway.stores.tables import open_tables
from gateway.types import LedgerEntry, Outcome, Status

MakeEntry = Callable[..., LedgerEntry]
A_SERVER = """
    import asyncio, sys
    from pathlib import Path
    from gateway.ledger.ledger import EntryLedger
    from gateway.stores.sql import SqlLedger
    from tests.factories import _entry, _request

    async def main():
        rows = SqlLedger(Path(sys.argv[1]), spool=Path(sys.argv[2]))
        rows.start()
        ledger = EntryLedger([], [rows])
        ledger.start()
        for number in range(1000):
            ledger.record(_entry(_request("hi", request_id=f"req-{number}")))
            await asyncio.sleep(0)
            print(f"req-{number}", flush=True)

    asyncio.run(main())
"""


@pytest.fixture
def store(ledger_place: Path | str, clock: Any) -> Iterator[RowStore]:
    """A store whose rows stay for an hour."""
    store = _open_store(ledger_place, 3600.0, PruningClock(clock.now_s))
    store.prepare()
    yield store
    store.close()


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    """An open spool."""
    spool = Spool(tmp_path / "spool", most_bytes=1 << 30, capacity=10)
    spool.open()
    yield spool
    spool.close()


def _batch(spool: Spool, *entries: LedgerEntry) -> Batch:
    spool.append([rows_of(entry) for entry in entries])
    batch = spool.next_batch(100)
    assert batch is not None
    return batch


def _read(place: Path | str, query: str) -> list[tuple[Any, ...]]:
    async def read() -> list[tuple[Any, ...]]:
        tables = open_tables(place)
        try:
            return await tables.rows(query)
        finally:
            await tables.close()

    return asyncio.run(read())


def _ids(place: Path | str) -> list[str]:
    return [row[0] for row in _read(place, "SELECT id FROM requests ORDER BY seq")]


def test_a_batch_that_is_written_again_is_there_once(
    store: RowStore, spool: Spool, ledger_place: Path | str, make_entry: MakeEntry
) -> None:
    """Whoever does not know whether a commit came through may do it again; what came after it is not left out."""
    first = _batch(spool, make_entry(0), make_entry(1))
    store.write(first)
    longer = _batch(spool, make_entry(2))
    store.write(longer)
    store.write(longer)
    assert ["req-0", "req-1", "req-2"] == _ids(ledger_place)


def test_a_batch_of_nobodys_file_is_written(
    store: RowStore, spool: Spool, ledger_place: Path | str, make_entry: MakeEntry
) -> None:
    """Rows out of memory have no position."""
    batch = _batch(spool, make_entry(0))
    store.write(Batch(None, batch.requests))
    store.write(Batch(None, batch.requests))
    assert ["req-0", "req-0"] == _ids(ledger_place)


def test_a_bad_row_costs_none_of_the_others(
    store: RowStore, spool: Spool, ledger_place: Path | str, make_entry: MakeEntry
) -> None:
    """It is counted."""
    bad = make_entry(1, outcome=Outcome(status=Status.OK, http_status="teapot"))  # type: ignore[arg-type]  # on purpose
    assert 1 == store.write(_batch(spool, make_entry(0), bad, make_entry(2)))
    assert ["req-0", "req-2"] == _ids(ledger_place)


def test_characters_that_a_database_does_not_have_cost_no_row(
    store: RowStore, spool: Spool, ledger_place: Path | str, make_entry: MakeEntry
) -> None:
    """A client may name a model as it likes."""
    entry = make_entry(0)
    odd = replace(entry, request=replace(entry.request, model="a\0b"))
    assert 0 == store.write(_batch(spool, odd))
    assert ["req-0"] == _ids(ledger_place)


def test_what_is_past_its_time_goes_with_its_attempts(
    store: RowStore, spool: Spool, ledger_place: Path | str, make_entry: MakeEntry, clock: Any
) -> None:
    """As the newest row and the monotonic clock say."""
    for number, age_s in enumerate((0.0, 1.0, 3600.5)):
        clock.now = age_s
        entry = make_entry(number)
        arrival = replace(entry.arrival, received_unix_s=entry.arrival.received_unix_s + age_s)
        batch = _batch(spool, replace(entry, arrival=arrival))
        store.write(batch)
        spool.done(batch)
    assert ["req-1", "req-2"] == _ids(ledger_place)
    assert [(2,)] == _read(ledger_place, "SELECT count(DISTINCT request_seq) FROM attempts")


async def test_tables_of_a_newer_version_are_refused(store: RowStore, ledger_place: Path | str) -> None:
    """Before anything is written into them."""
    if isinstance(ledger_place, Path):
        pytest.skip("test_sql.py has it for SQLite")
    tables = open_tables(ledger_place)
    await tables.write(("UPDATE schema_version SET version = version + 1", {}))
    await tables.close()
    with pytest.raises(ConfigurationError, match=f"version {SCHEMA_VERSION + 1}.*a newer headrace made it") as caught:
        store.prepare()
    assert "headrace@127.0.0.1" in str(caught.value)


@pytest.mark.parametrize("address", ["mysql://root@db/x", "postgresql+psycopg://db/x", "not an address"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    """With what it should look like, and without repeating a password."""
    with pytest.raises(ConfigurationError, match="postgresql://user@host/database"):
        SqlLedger(address, spool=Path("nowhere"))


async def test_rows_wait_on_disk_while_the_server_is_away(postgres: Any, tmp_path: Path, make_entry: MakeEntry) -> None:
    """At the start, in between, and over a restart; in order, each once, when it is back."""
    place = postgres.new_database()
    ledger = SqlLedger(place, spool=tmp_path, retry_s=0.02)
    ledger.start()
    ledger.take([make_entry(0)])
    assert await ledger.flush()
    postgres.stop()
    try:
        ledger.take([make_entry(number) for number in range(1, 2500)])
        assert not await ledger.flush(timeout_s=0.2)
        await ledger.close()
        again = SqlLedger(place, spool=tmp_path, retry_s=0.02)
        again.start()
        again.take([make_entry(2500)])
        assert not await again.flush(timeout_s=0.2)
    finally:
        postgres.start()
    assert await again.flush(30)
    await again.close()
    assert [f"req-{number}" for number in range(2501)] == await asyncio.to_thread(_ids, place)
    assert (0, 0) == (ledger.dropped, again.dropped)


def test_a_killed_process_loses_no_answer_that_was_complete(ledger_place: Path | str, tmp_path: Path) -> None:
    """A kill -9 in the middle: all that it had told of are there after the next start, each once."""
    if not isinstance(ledger_place, Path):
        pytest.skip("what is killed is the same process, whatever is behind it")
    command = [sys.executable, "-c", textwrap.dedent(A_SERVER), str(ledger_place), str(tmp_path / "spool")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        told = [server.stdout.readline().strip() for _ in range(300)]
        server.kill()
        told += [line.strip() for line in server.stdout if line.endswith("\n")]
    assert -signal.SIGKILL == server.returncode
    ledger = SqlLedger(ledger_place, spool=tmp_path / "spool")
    ledger.start()
    asyncio.run(ledger.close())
    found = _ids(ledger_place)
    assert told == found[: len(told)]
    assert len(found) - len(told) <= 1  # the one that it was about to tell of
    assert [] == list((tmp_path / "spool").iterdir())


def test_of_a_damaged_spool_all_that_is_whole_is_written_and_the_rest_set_aside(
    tmp_path: Path, make_entry: MakeEntry, caplog: pytest.LogCaptureFixture
) -> None:
    """For people to look at; it is told, and does not come up again."""
    place = tmp_path / "ledger.sqlite3"
    dead = Spool(tmp_path / "spool", most_bytes=1 << 30, capacity=10)
    dead.open()
    dead.append([rows_of(make_entry(number)) for number in range(3)])
    dead.close()
    (path,) = dead.folder.glob("*.spool")
    with path.open("r+b") as file:
        file.seek(-5, 2)
        file.write(b"wrong")
    for _ in range(2):
        ledger = SqlLedger(place)
        ledger.start()
        asyncio.run(ledger.close())
    assert ["req-0", "req-1"] == _ids(place)
    assert [".damaged"] == [file.suffix for file in dead.folder.iterdir()]
    assert 1 == caplog.text.count("and set aside")
