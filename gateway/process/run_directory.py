"""The private directory in which the workers of one gateway meet: their engine's socket, what they have counted."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gateway.errors import ConfigurationError

if sys.platform != "win32":
    import fcntl

_LONGEST_SOCKET_BYTES = 103
"""Of a Unix socket's path: 107 on Linux, 103 on macOS."""
_ROOM_BYTES = len("/w-12345678/engine-123456789abc.sock")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDirectory:
    """An open directory. It is in use for as long as any process has ``lock`` open, so workers inherit it."""

    path: Path
    lock: int

    def close(self) -> None:
        """Removes it."""
        shutil.rmtree(self.path, ignore_errors=True)  # a worker that was left behind may write one last file
        os.close(self.lock)


def open_run_directory(state_dir: Path) -> RunDirectory:
    """A fresh directory below ``state_dir``; those that were left there by gateways that are no more are removed.

    Where ``state_dir`` is too long for a socket's path, it is among the temporary files.

    Raises:
        ConfigurationError: it cannot be made.
    """
    parent = state_dir / "run"
    try:
        if len(os.fsencode(parent)) + _ROOM_BYTES > _LONGEST_SOCKET_BYTES:
            return _locked(Path(tempfile.mkdtemp(prefix="headrace-")))
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _waiting_for(parent / "lock"):  # nobody may remove what another is just making
            for old in parent.glob("w-*"):
                _remove_if_unused(old)
            return _locked(Path(tempfile.mkdtemp(prefix="w-", dir=parent)))
    except OSError as error:
        raise ConfigurationError(f"there is no place for the workers to meet: {error}", file=str(parent)) from error


def leave_run_directory(path: Path, lock: int) -> None:
    """A worker ends, ``lock`` is what it inherited: where its parent was killed, the last worker removes ``path``."""
    os.close(lock)
    with suppress(FileNotFoundError):  # another was last
        _remove_if_unused(path)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _locked(path: Path) -> RunDirectory:
    lock = _open(path / "lock")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return RunDirectory(path=path, lock=lock)


@contextmanager
def _waiting_for(path: Path) -> Iterator[None]:
    lock = _open(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _remove_if_unused(path: Path) -> None:
    lock = _open(path / "lock")
    try:
        with suppress(BlockingIOError):  # in use
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
