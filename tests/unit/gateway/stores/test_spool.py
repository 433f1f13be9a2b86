import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.stores import rows_at_hand
from gateway.stores import spool as spool_module
from gateway.stores.rows import Rows, rows_of
from gateway.stores.spool import Spool, adopt
from gateway.stores.spool_frames import frame, read_frames, read_head, unframed
from gateway.types import LedgerEntry

MakeEntry = Callable[..., LedgerEntry]
VALUES = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()
ROWS = st.builds(
    Rows,
    received_unix_s=st.floats(0, 4e9),
    request=st.lists(VALUES, max_size=5).map(tuple),
    attempts=st.lists(st.lists(VALUES, max_size=3).map(tuple), max_size=3).map(tuple),
    facts=st.none() | st.binary(),
    chunks=st.tuples(st.lists(st.binary(max_size=16), max_size=3).map(tuple), st.lists(st.integers(0, 9)).map(tuple)),
)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """An open spool without a bound that matters."""
    spool = Spool(tmp_path / "spool", most_bytes=1 << 30, capacity=10)
    spool.open()
    return spool


def _rows(make_entry: MakeEntry, *numbers: int) -> list[Rows]:
    return [rows_of(make_entry(number)) for number in numbers]


def _ids(spool: Spool, most: int = 100) -> list[object]:
    """The ids of all that waits, oldest first; it is done then."""
    found: list[object] = []
    while (batch := spool.next_batch(most)) is not None:
        found += [spooled.rows.request[0] for spooled in batch.requests]
        spool.done(batch)
    return found


@given(rows=ROWS)
def test_rows_come_back_as_they_were(rows: Rows) -> None:
    """Text, bytes, numbers and nothing, each as what it is."""
    assert rows == unframed(frame(rows))


@given(made=st.lists(ROWS, min_size=1, max_size=6), cut=st.integers(0, 10_000))
def test_a_file_that_was_cut_short_gives_all_that_is_whole(
    tmp_path_factory: pytest.TempPathFactory, made: list[Rows], cut: int
) -> None:
    """At whatever byte the power failed: nothing that is none, nothing lost before it."""
    spool = Spool(tmp_path_factory.mktemp("spool"), most_bytes=1 << 30, capacity=10)
    spool.open()
    spool.append(made)
    (path,) = spool.folder.glob("*.spool")
    length = path.stat().st_size
    os.truncate(path, max(length - cut, 0))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _, begins = read_head(descriptor)
        found = [spooled.rows for spooled in read_frames(descriptor, begins, 100)]
    except ValueError:
        found = []
    finally:
        os.close(descriptor)
        spool.close()
    assert made[: len(found)] == found
    assert len(found) == len(made) or cut > 0


def test_what_is_appended_is_read_in_order_and_once(spool: Spool, make_entry: MakeEntry) -> None:
    """In batches of any size."""
    assert (0, 0) == spool.append(_rows(make_entry, 0, 1, 2))
    assert (3, 0) == spool.append(_rows(make_entry, 3))
    assert ["req-0", "req-1", "req-2", "req-3"] == _ids(spool, most=3)
    assert (0, None) == (spool.waiting, spool.next_batch(10))


def test_what_was_just_written_is_not_read_again(spool: Spool, make_entry: MakeEntry) -> None:
    """The file is there for the next process, and for who falls behind."""
    spool.append(_rows(make_entry, 0, 1))
    (path,) = spool.folder.glob("*.spool")
    os.truncate(path, 8)
    assert ["req-0", "req-1"] == _ids(spool)


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_who_falls_behind_reads_the_file_and_then_goes_on_with_what_is_at_hand(
    spool: Spool, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """In order, each once, wherever one ends and the other begins."""
    monkeypatch.setattr(rows_at_hand, "MOST_REQUESTS", 4)
    for first in range(0, 9, 3):
        spool.append(_rows(make_entry, first, first + 1, first + 2))
    batch = spool.next_batch(most)
    assert batch is not None
    assert [f"req-{number}" for number in range(min(most, 9))] == [one.rows.request[0] for one in batch.requests]
    spool.done(batch)
    spool.append(_rows(make_entry, 9))
    assert [f"req-{number}" for number in range(min(most, 9), 10)] == _ids(spool, most)
    assert 0 == spool.waiting


def test_files_that_are_done_go_away(spool: Spool, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is bounded; at the end nothing is left of any."""
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES", 1)
    for number in range(5):
        spool.append(_rows(make_entry, number))
    assert 5 <= len(list(spool.folder.iterdir())) <= 6
    assert [f"req-{number}" for number in range(5)] == _ids(spool, most=2)
    assert 1 == len(list(spool.folder.iterdir()))
    assert (0, []) == (spool.close(), list(spool.folder.iterdir()))


def test_a_full_spool_holds_some_in_memory_and_counts_the_rest(tmp_path: Path, make_entry: MakeEntry) -> None:
    """It has a bound on the disk and one in memory."""
    spool = Spool(tmp_path, most_bytes=1, capacity=2)
    spool.open()
    assert [(0, 0), (1, 0), (2, 0), (3, 1)] == [spool.append(_rows(make_entry, number)) for number in range(4)]
    assert ["req-0", "req-1", "req-2"] == _ids(spool)
    assert (0, 0) == (spool.waiting, spool.close())


def test_a_disk_that_takes_nothing_is_borne(
    spool: Spool, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits in memory is written, in order, as soon as it takes something again; a half of a frame is no frame."""
    room = [100]

    def small_disk(descriptor: int, data: bytes, at: int) -> int:
        if not room[0]:
            raise OSError("no space left on device")
        written = os.pwritev(descriptor, [data[: room[0]]], at)
        room[0] -= written
        return written

    monkeypatch.setattr("gateway.stores.spool.os.pwrite", small_disk)
    assert (0, 0) == spool.append(_rows(make_entry, 0))
    room[0] = 1 << 20
    assert (1, 0) == spool.append(_rows(make_entry, 1))
    assert ["req-0", "req-1"] == _ids(spool)


def test_what_went_to_the_database_out_of_memory_goes_into_no_file(
    spool: Spool, make_entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the disk takes something again before the database has answered: a second row would be a second bill."""

    def no_disk(*_: object) -> int:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("gateway.stores.spool.os.pwrite", no_disk)
        spool.append(_rows(make_entry, 0))
    batch = spool.next_batch(10)
    assert batch is not None
    assert [None, "req-0"] == [batch.segment, batch.requests[0].rows.request[0]]
    spool.append(_rows(make_entry, 1))
    spool.done(batch)
    assert ["req-1"] == _ids(spool)
    assert 0 == spool.waiting


def test_a_dead_process_files_are_taken_over_and_a_living_ones_are_not(tmp_path: Path, make_entry: MakeEntry) -> None:
    """Each by one process alone; a process is dead when its locks are gone."""
    dead, living = (Spool(tmp_path, most_bytes=1 << 30, capacity=10) for _ in range(2))
    for number, one in enumerate((dead, living)):
        one.open()
        one.append(_rows(make_entry, number))
    dead.close()
    (segment,) = adopt(tmp_path)
    assert ["req-0"] == [spooled.rows.request[0] for spooled in segment.read(10)]
    assert [] == list(adopt(tmp_path))
    segment.remove()
    assert 1 == len(list(tmp_path.glob("*.spool")))
    living.close()


def test_a_file_that_is_no_spool_is_told_and_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody else's file is nobody's rows."""
    (tmp_path / "odd.spool").write_bytes(b"this is something else")
    assert [] == list(adopt(tmp_path))
    assert "odd.spool cannot be read: it is no spool" in caplog.text
    assert b"this is something else" == (tmp_path / "odd.spool").read_bytes()
