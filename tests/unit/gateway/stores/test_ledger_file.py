import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from gateway.stores.database import open_database
from gateway.stores.file_beginning import beginning_of
from gateway.stores.sql import SqlLedger
from gateway.stores.sqlite_tables import SqliteTables
from gateway.types import LedgerEntry

MakeEntry = Callable[..., LedgerEntry]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger lies."""
    return tmp_path / "ledger.db"


@pytest.fixture
async def ledger(path: Path, make_entry: MakeEntry) -> AsyncIterator[SqlLedger]:
    """A ledger with three rows, one for each of three batches."""
    ledger = SqlLedger(path, capacity=3, retry_s=0.01)
    ledger.start()
    for number in range(3):
        ledger.take([make_entry(number)])
        assert await ledger.flush()
    yield ledger
    await ledger.close()


def _ids(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        assert ("ok",) == connection.execute("PRAGMA integrity_check").fetchone()
        return [name for (name,) in connection.execute("SELECT id FROM requests ORDER BY seq")]


def _move(path: Path, name: str, *, with_journal: bool = True) -> Path:
    for file in sorted(path.parent.glob(f"{path.name}*")) if with_journal else [path]:
        file.rename(file.with_name(file.name.replace(path.name, name)))
    return path.with_name(name)


@pytest.mark.parametrize("with_journal", [True, False])
async def test_a_file_that_is_moved_keeps_what_it_had_and_a_new_one_is_begun(
    ledger: SqlLedger, path: Path, make_entry: MakeEntry, caplog: pytest.LogCaptureFixture, with_journal: bool
) -> None:
    """Both files are whole, whether the journal was moved too or left behind, and one line of the log tells of it."""
    archive = _move(path, "archive.db", with_journal=with_journal)
    for number in range(3, 6):
        ledger.take([make_entry(number)])
        assert await ledger.flush()
    await ledger.close()
    assert ["req-3", "req-4", "req-5"] == _ids(path)
    assert ["req-0", "req-1", "req-2"] == _ids(archive)
    assert ["the ledger's file was taken away while it was open; it is opened anew"] == caplog.messages
    assert 0 == ledger.dropped


async def test_a_file_that_is_deleted_is_made_again(
    ledger: SqlLedger, path: Path, make_entry: MakeEntry, caplog: pytest.LogCaptureFixture
) -> None:
    """What comes afterwards is kept."""
    _move(path, "gone.db", with_journal=False).unlink()
    ledger.take([make_entry(3)])
    assert await ledger.flush()
    assert ["req-3"] == _ids(path)
    assert "was taken away" in caplog.text


async def test_a_ledger_that_is_put_in_the_place_of_ours_goes_on(
    ledger: SqlLedger, path: Path, tmp_path: Path, make_entry: MakeEntry, caplog: pytest.LogCaptureFixture
) -> None:
    """A backup that was put back gets the new rows, and nothing of the journal of the other file."""
    backup = SqlLedger(tmp_path / "backup.db")
    backup.start()
    backup.take([make_entry(100)])
    await backup.close()
    (tmp_path / "backup.db").rename(path)
    ledger.take([make_entry(3)])
    assert await ledger.flush()
    await ledger.close()
    assert ["req-100", "req-3"] == _ids(path)
    assert "was replaced" in caplog.text


async def test_two_writers_both_find_the_new_file(ledger: SqlLedger, path: Path, make_entry: MakeEntry) -> None:
    """Whoever is first takes the old journal away, and not the new one that the other writes already."""
    other = SqlLedger(path, retry_s=0.01)
    other.start()
    other.take([make_entry(10)])
    assert await other.flush()
    archive = _move(path, "archive.db", with_journal=False)
    for number in range(3, 6):
        for writer, first in ((ledger, 0), (other, 10)):
            writer.take([make_entry(first + number)])
            assert await writer.flush()
    await ledger.close()
    await other.close()
    assert ["req-3", "req-13", "req-4", "req-14", "req-5", "req-15"] == _ids(path)
    assert ["req-0", "req-1", "req-2", "req-10"] == _ids(archive)


def _settle(path: Path) -> None:
    """Moves what the journal still has into the file, from where nothing can mend it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


async def test_a_file_that_is_emptied_is_begun_anew(
    ledger: SqlLedger, path: Path, make_entry: MakeEntry, caplog: pytest.LogCaptureFixture
) -> None:
    """As by a shell's redirection."""
    _settle(path)
    path.open("wb").close()
    ledger.take([make_entry(3)])
    assert await ledger.flush()
    assert ["req-3"] == _ids(path)
    assert "was cut short" in caplog.text


def _cut_short(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"rubbish" * 500)


@pytest.mark.parametrize("damage", [_cut_short, _overwritten])
async def test_rows_wait_while_the_file_is_damaged(
    ledger: SqlLedger,
    path: Path,
    make_entry: MakeEntry,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], None],
) -> None:
    """It is told once; nothing is lost, and all is written once that file is away."""
    _settle(path)
    damage(path)
    ledger.take([make_entry(number) for number in range(3, 6)])
    assert not await ledger.flush(timeout_s=0.1)
    ledger.take([make_entry(6)])
    warning, error = caplog.messages
    assert warning.endswith("while it was open; it is opened anew")
    assert "move the file away" in error
    _move(path, "damaged.db")
    assert await ledger.flush()
    assert (["req-3", "req-4", "req-5", "req-6"], 0) == (_ids(path), ledger.dropped)


async def test_what_one_connection_opens_and_closes_leaves_the_locks_of_others(
    ledger: SqlLedger, path: Path, make_entry: MakeEntry
) -> None:
    """Another process that comes and goes is not the last one, so the write-ahead log in use stays where it is."""
    tables = SqliteTables(path)
    assert [0] == await tables.write(("DELETE FROM requests WHERE id = :id", {"id": "nobody"}))
    await tables.close()
    open_database(path).close()
    visit = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('DELETE FROM attempts WHERE n = 9')"
    visit += "; c.commit(); c.close()"
    visitor = await asyncio.create_subprocess_exec(sys.executable, "-c", visit, str(path))
    assert 0 == await visitor.wait()
    assert path.with_name(f"{path.name}-wal").exists()
    ledger.take([make_entry(3)])
    assert await ledger.flush()
    assert ["req-0", "req-1", "req-2", "req-3"] == _ids(path)


def test_a_file_that_nobody_reads_any_more_is_closed(tmp_path: Path) -> None:
    """There is one reader for all, and none is left behind."""
    file = tmp_path / "file"
    file.write_bytes(b"beginning")
    first, second = beginning_of(file), beginning_of(file)
    assert first is second
    first.leave()
    assert b"begin" == second.read(5)
    second.leave()
    with pytest.raises(OSError, match="Bad file descriptor"):
        second.read(5)
