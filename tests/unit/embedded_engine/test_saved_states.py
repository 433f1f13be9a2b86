import logging
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from embedded_engine.saved_states import SavedStates


def _cells(value: int, size: int = 10) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    return np.full(size, value, np.uint8)


def test_the_one_used_longest_ago_goes_first() -> None:
    """Reading counts as use."""
    saved = SavedStates[str](memory_bytes=30)
    assert [[], [], []] == [saved.put(key, _cells(1)) for key in "abc"]
    saved.get("a")
    assert ["b"] == saved.put("d", _cells(2))
    assert ["c", "a", "d", "e"] == saved.put("e", _cells(3, 31))
    assert (0, 0) == (len(saved), saved.used_memory_bytes)


def test_what_memory_has_no_room_for_goes_to_files_that_nobody_sees(tmp_path: Path) -> None:
    """Both are bounded, and what comes back is what was put in."""
    saved = SavedStates[int](memory_bytes=20, file_bytes=30, directory=str(tmp_path))
    gone = [key for number in range(7) for key in saved.put(number, _cells(number))]
    assert [0, 1] == gone
    assert (20, 30) == (saved.used_memory_bytes, saved.used_file_bytes)
    for number in range(2, 7):
        cells = saved.get(number)
        assert cells is not None
        np.testing.assert_array_equal(_cells(number), cells)
    assert [] == list(tmp_path.iterdir())
    saved.drop(3)
    saved.drop(3)
    assert (4, 20) == (len(saved), saved.used_file_bytes)
    saved.close()
    assert (0, 0, 0) == (len(saved), saved.used_memory_bytes, saved.used_file_bytes)


def test_reading_a_file_counts_as_use(tmp_path: Path) -> None:
    """Of the files, too, the one used longest ago goes first."""
    with closing(SavedStates[int](memory_bytes=10, file_bytes=20, directory=str(tmp_path))) as saved:
        for number in range(3):
            saved.put(number, _cells(number))
        saved.get(0)
        assert [1] == saved.put(3, _cells(3))


def test_no_directory_means_nothing_is_saved(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A full or missing disk costs a recomputation and a line in the log."""
    saved = SavedStates[int](memory_bytes=10, file_bytes=20, directory=str(tmp_path / "none"))
    saved.put(0, _cells(0))
    with caplog.at_level(logging.WARNING):
        assert [0] == saved.put(1, _cells(1))
    assert "cannot be saved" in caplog.text


def test_a_file_that_was_cut_is_no_prefix(tmp_path: Path) -> None:
    """Never a wrong restore: half a state is none."""
    with closing(SavedStates[int](memory_bytes=10, file_bytes=20, directory=str(tmp_path))) as saved:
        saved.put(0, _cells(0))
        saved.put(1, _cells(1))
        saved._in_files[0][0].truncate(5)
        assert saved.get(0) is None
