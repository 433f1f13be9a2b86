"""Room on a disk that is held back, so that what makes room can be written when there is none left."""

import logging
import os
from pathlib import Path

_log = logging.getLogger(__name__)


class SpareRoom:
    """A file without content beside a database. Processes share it; making and giving it up may be done twice.

    Args:
        file: where it is.
        size_bytes: how much is held back; 0 for none.
    """

    def __init__(self, file: Path, size_bytes: int) -> None:
        self._file = file
        self._size_bytes = size_bytes
        self._made = size_bytes == 0
        self._told = False

    def make(self) -> None:
        """Holds it back, once, where there is as much."""
        if self._made:
            return
        self._made = True
        try:
            if not self._file.exists():
                self._fill()
        except OSError as error:
            if not self._told:
                _log.warning("no room is held back beside the database: %s", error)
            self._told = True
            self._file.unlink(missing_ok=True)

    def give_up(self) -> None:
        """Lets go of it, until it is made again."""
        self._file.unlink(missing_ok=True)
        self._made = self._size_bytes == 0

    def _fill(self) -> None:
        with os.fdopen(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, self._size_bytes)
            else:  # macOS
                file.write(bytes(self._size_bytes))
