"""Reads the beginning of a file that SQLite has open, too.

A process that closes a file once gives up all locks that it has on it, SQLite's among them. Without those another
process takes itself for the last one, and takes the write-ahead log away while it is in use, which damages the
database. So a process has one reader for each file, which is closed when nobody needs it any more.
"""

import os
import threading
from pathlib import Path

Identity = tuple[int, int]


class FileBeginning:
    """The beginning of one file, wherever it lies by now. ``beginning_of`` makes it, for any thread."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._descriptors: list[int] = []
        self._users = 0

    def read(self, most_bytes: int) -> bytes:
        """The first bytes.

        Raises:
            OSError: they cannot be read.
        """
        return os.pread(self._descriptors[0], most_bytes, 0)

    def join(self, *descriptors: int) -> None:
        """One more needs it; what it has opened of the file is closed with the others."""
        self._users += 1
        self._descriptors += descriptors

    def leave(self) -> None:
        """One of those who asked for it needs it no more."""
        with _changing:
            self._users -= 1
            if self._users == 0:
                del _open[self._identity]
                for descriptor in self._descriptors:
                    os.close(descriptor)


def beginning_of(path: Path) -> FileBeginning:
    """That of the file at ``path``; whoever asks for it leaves it in the end, after closing its connection.

    Raises:
        OSError: it cannot be opened.
    """
    with _changing:
        found = _open.get(_identity(path.stat()))
        if found is not None:
            found.join()
            return found
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        identity = _identity(os.fstat(descriptor))  # another file may have come there meanwhile
        found = _open.setdefault(identity, FileBeginning(identity))
        found.join(descriptor)
        return found


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


_changing = threading.Lock()
_open: dict[Identity, FileBeginning] = {}
