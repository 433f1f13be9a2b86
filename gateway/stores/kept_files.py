"""Small facts in files, for the workers of one machine: what one of them keeps, all of them find.

Each fact is a file of its own in the private directory where the workers meet, which goes with the last of them. The
name is the key's digest, the file's time is when it expires; a file is there whole or not at all.
"""

import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from gateway.ports import Clock
from gateway.seldom import Seldom

_MOST_BYTES = 256 * 1024 * 1024
_SWEEP_EVERY = 64
_UNFINISHED = ".new"
_WRITING_S = 60.0

_log = logging.getLogger(__name__)


class KeptFiles:
    """Facts with a time to live. What is kept is bounded by all workers together: each sweeps once in a while.

    Args:
        folder: where they lie; made with the first.
        clock: the wall clock of which says what has expired, since workers share no other.
        most_bytes: of all of them; those that expire first go first.
    """

    def __init__(self, folder: Path, clock: Clock, *, most_bytes: int = _MOST_BYTES) -> None:
        self._folder = folder
        self._clock = clock
        self._most_bytes = most_bytes
        self._puts = count(1)
        self._complain = Seldom(_log)

    def put(self, key: str, value: str, ttl_s: float) -> None:
        """Remembers ``value`` for ``ttl_s`` seconds; a value that would expire at once is forgotten instead.

        What cannot be written is not kept, and the log says so.
        """
        file = self._file(key)
        try:
            if ttl_s <= 0:
                file.unlink(missing_ok=True)
                return
            self._write(file, value, self._clock.unix_s() + ttl_s)
            if next(self._puts) % _SWEEP_EVERY == 0:
                self.sweep()
        except OSError as error:
            self._complain("what clients may ask for again cannot be kept: %s", error.strerror)

    def get(self, key: str) -> tuple[str, float] | None:
        """The value and the seconds it has left, or ``None``."""
        file = self._file(key)
        try:
            left_s = file.stat().st_mtime - self._clock.unix_s()
            return (file.read_text(encoding="utf-8"), left_s) if left_s > 0 else None
        except FileNotFoundError:
            return None
        except OSError as error:
            self._complain("what was kept cannot be read: %s", error.strerror)
            return None

    def sweep(self) -> None:
        """Takes away what has expired, and what is too much."""
        now_unix_s, left_bytes = self._clock.unix_s(), self._most_bytes
        for expires_unix_s, size_bytes, file in sorted(self._known(), reverse=True):
            left_bytes -= size_bytes
            if expires_unix_s <= now_unix_s or left_bytes < 0:
                file.unlink(missing_ok=True)  # another may have swept it

    def _known(self) -> Iterator[tuple[float, int, Path]]:
        """When each expires, its size, and where it is; what another is just writing has a minute for it."""
        for file in self._folder.iterdir():
            with suppress(FileNotFoundError):  # another has swept it meanwhile
                status = file.stat()
                yield status.st_mtime + (_WRITING_S if file.suffix == _UNFINISHED else 0), status.st_size, file

    def _write(self, file: Path, value: str, expires_unix_s: float) -> None:
        unfinished = file.with_name(f"{file.name}.{os.getpid()}{_UNFINISHED}")
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with open(unfinished, "w", encoding="utf-8", opener=_private) as out:  # which has no opener
            out.write(value)
        os.utime(unfinished, (expires_unix_s, expires_unix_s))
        unfinished.replace(file)

    def _file(self, key: str) -> Path:
        return self._folder / hashlib.sha256(key.encode()).hexdigest()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
