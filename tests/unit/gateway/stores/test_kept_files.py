import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.stores.kept_files import KeptFiles


@pytest.fixture
def places(tmp_path: Path, clock: Any) -> Callable[..., KeptFiles]:
    """Two workers of one machine, each with its own."""
    return lambda **bounds: KeptFiles(tmp_path / "kept", clock, **bounds)


def test_what_one_keeps_all_find(places: Callable[..., KeptFiles]) -> None:
    """With the time that it has left."""
    places().put("response/acme/1", "你好", 60)
    found = places().get("response/acme/1")
    assert found is not None
    assert ("你好", 60) == (found[0], pytest.approx(found[1]))


def test_it_expires(places: Callable[..., KeptFiles], clock: Any) -> None:
    """For everybody at once, whoever kept it."""
    places().put("k", "v", 60)
    clock.now += 61
    assert places().get("k") is None


def test_the_last_word_holds(places: Callable[..., KeptFiles]) -> None:
    """Another's, too; and who forgets, forgets for all."""
    one, other = places(), places()
    one.put("k", "old", 60)
    other.put("k", "new", 60)
    assert "new" == (one.get("k") or ("",))[0]
    one.put("k", "", 0)
    assert other.get("k") is None
    one.put("k", "", 0)


def test_others_on_the_machine_read_nothing(places: Callable[..., KeptFiles], tmp_path: Path) -> None:
    """Neither the words nor, by the names of files, whose they are."""
    places().put("response/acme/1", "a secret", 60)
    (file,) = (tmp_path / "kept").iterdir()
    assert (0o600, 0o700) == (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777)
    assert "acme" not in file.name


def test_it_is_bounded(places: Callable[..., KeptFiles], tmp_path: Path, clock: Any) -> None:
    """What has expired goes, then what expires first."""
    one = places(most_bytes=250)
    for number in range(4):
        one.put(f"k{number}", "x" * 100, 60 + number)
    one.put("over", "y", 1)
    clock.now += 2
    one.sweep()
    assert [False, False, True, True] == [one.get(f"k{number}") is not None for number in range(4)]
    assert 2 == len(list((tmp_path / "kept").iterdir()))


def test_it_sweeps_by_itself(places: Callable[..., KeptFiles], tmp_path: Path) -> None:
    """Once in a while, so that no worker need live to forget what it kept."""
    one = places(most_bytes=1000)
    for number in range(200):
        one.put(f"k{number}", "x" * 100, 60)
    assert 80 >= len(list((tmp_path / "kept").iterdir()))


def test_what_was_never_finished_goes_after_a_while(
    places: Callable[..., KeptFiles], tmp_path: Path, clock: Any
) -> None:
    """A worker that was killed while it wrote leaves half a file; what another is just writing stays."""
    one = places()
    one.put("k", "v", 600)
    half = tmp_path / "kept" / "half.1.new"
    half.write_text("ha")
    os.utime(half, (clock.unix_s(), clock.unix_s()))
    one.sweep()
    assert half.exists()
    clock.now += 61
    one.sweep()
    assert not half.exists()
    assert one.get("k") is not None


def test_a_disk_that_fails_is_told_in_the_log(
    places: Callable[..., KeptFiles], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody's answer fails for it: it cannot be asked for again."""
    (tmp_path / "kept").write_text("no directory")
    with caplog.at_level(logging.ERROR):
        places().put("k", "v", 60)
        assert places().get("k") is None
    assert "cannot be kept" in caplog.text
    assert "cannot be read" in caplog.text
