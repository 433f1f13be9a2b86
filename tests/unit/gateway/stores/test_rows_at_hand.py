from collections.abc import Callable

import pytest

from gateway.stores import rows_at_hand
from gateway.stores.rows import Rows, rows_of
from gateway.stores.rows_at_hand import RowsAtHand
from gateway.stores.spool_frames import Spooled, frame
from gateway.types import LedgerEntry

MakeEntry = Callable[..., LedgerEntry]


@pytest.fixture
def runs(make_entry: MakeEntry) -> list[list[Rows]]:
    """Three runs of two requests, as they ended in three turns of the event loop."""
    return [[rows_of(make_entry(number)) for number in (first, first + 1)] for first in (0, 2, 4)]


def _ends_at(rows: Rows, at: int) -> int:
    return at + len(frame(rows))


def _put(hand: RowsAtHand, runs: list[list[Rows]], file: str = "a") -> list[Spooled]:
    """Puts the runs into a file one after the other, from its tenth byte on; what is then to be had."""
    at, found = 10, []
    for run in runs:
        for rows in run:
            at = _ends_at(rows, at)
            found.append(Spooled(at, rows))
        hand.put(file, at, [frame(rows) for rows in run], run)
    return found


def test_rows_are_had_from_where_the_file_is_read_on(runs: list[list[Rows]]) -> None:
    """Whole runs, as many as are asked for, with the places where the file has their ends."""
    hand = RowsAtHand()
    found = _put(hand, runs)
    assert found == hand.after("a", 10, 100)
    assert found[:4] == hand.after("a", 10, 5)


def test_others_are_read_in_the_file(runs: list[list[Rows]]) -> None:
    """Of another file, before the first at hand, from the middle of a run, and where fewer than a run are wanted."""
    hand = RowsAtHand()
    found = _put(hand, runs)
    asked = [("b", 10, 100), ("a", 9, 100), ("a", found[0].ends_at, 100), ("a", 10, 1)]
    assert [[]] * 4 == [hand.after(*one) for one in asked]


def test_what_is_done_is_forgotten(runs: list[list[Rows]]) -> None:
    """A run of which a part is done as well: the rest of it is read in the file."""
    hand = RowsAtHand()
    found = _put(hand, runs)
    hand.drop("a", found[2].ends_at)
    assert [[], []] == [hand.after("a", at, 100) for at in (10, found[2].ends_at)]
    assert found[4:] == hand.after("a", found[3].ends_at, 100)


def test_what_follows_is_had_then(runs: list[list[Rows]]) -> None:
    """Each request once, in order."""
    hand = RowsAtHand()
    found = _put(hand, runs)
    hand.drop("a", found[1].ends_at)
    assert found[2:] == hand.after("a", found[1].ends_at, 4)


def test_only_the_last_are_at_hand(runs: list[list[Rows]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded, whatever the database does."""
    monkeypatch.setattr(rows_at_hand, "MOST_REQUESTS", 4)
    hand = RowsAtHand()
    found = _put(hand, runs)
    assert [[], found[2:]] == [hand.after("a", at, 100) for at in (10, found[1].ends_at)]
