import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.errors import ConfigurationError
from gateway.process.run_directory import leave_run_directory, open_run_directory


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A state directory with a short path."""
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        yield Path(folder)


def test_it_is_private_and_goes_with_its_owner(state_dir: Path) -> None:
    """Nobody else may look in, and nothing stays behind."""
    run_dir = open_run_directory(state_dir)
    assert state_dir / "run" == run_dir.path.parent
    assert 0o700 == stat.S_IMODE(run_dir.path.stat().st_mode)
    (run_dir.path / "x").touch()
    run_dir.close()
    assert not run_dir.path.exists()


def test_what_others_left_is_removed_and_what_they_use_is_not(state_dir: Path) -> None:
    """A directory is in use as long as any process has its lock, inherited ones included."""
    left, used, inherited = (open_run_directory(state_dir) for _ in range(3))
    child = os.dup(inherited.lock)
    for closed in (left, inherited):
        os.close(closed.lock)  # as a process that is killed does
    fresh = open_run_directory(state_dir)
    assert [False, True, True] == [run_dir.path.exists() for run_dir in (left, used, inherited)]
    os.close(child)
    for run_dir in (used, fresh):
        run_dir.close()


def test_the_last_worker_removes_what_a_killed_parent_left(state_dir: Path) -> None:
    """Not while the parent is there, not while another worker is."""
    run_dir = open_run_directory(state_dir)
    first, second, third = (os.dup(run_dir.lock) for _ in range(3))
    there = []
    leave_run_directory(run_dir.path, first)
    there.append(run_dir.path.exists())
    os.close(run_dir.lock)
    leave_run_directory(run_dir.path, second)
    there.append(run_dir.path.exists())
    leave_run_directory(run_dir.path, third)
    there.append(run_dir.path.exists())
    assert [True, True, False] == there
    leave_run_directory(run_dir.path, os.open(os.devnull, os.O_RDONLY))


def test_a_path_that_is_too_long_for_a_socket_is_avoided(tmp_path: Path) -> None:
    """The workers meet among the temporary files then."""
    run_dir = open_run_directory(tmp_path / ("x" * 100))
    assert Path(tempfile.gettempdir()) == run_dir.path.parent
    assert 0o700 == stat.S_IMODE(run_dir.path.stat().st_mode)
    run_dir.close()


def test_a_place_that_cannot_be_made_is_a_mistake_in_the_configuration(state_dir: Path) -> None:
    """With the path in it."""
    (state_dir / "run").touch()
    with pytest.raises(ConfigurationError, match=r"no place for the workers"):
        open_run_directory(state_dir)
