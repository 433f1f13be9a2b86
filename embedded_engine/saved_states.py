"""Keeps the cells of idle sequences in the machine's memory, and where that is full, in files.

Both are bounded. The file system forgets a file as soon as it is made, so that nobody else can open it and nothing is
left behind however the process ends.
"""

import logging
import tempfile
from collections import OrderedDict
from collections.abc import Hashable
from typing import IO, Generic, TypeVar

import numpy as np

from embedded_engine.kernels.port import SavedCells

__all__ = ["SavedStates"]

_logger = logging.getLogger(__name__)

_Key = TypeVar("_Key", bound=Hashable)


class SavedStates(Generic[_Key]):
    """Saved cells by key; what was used longest ago is the first to go to a file, and then for good.

    Args:
        memory_bytes: So much is kept in memory.
        file_bytes: And so much in files.
        directory: Where the files are; None: where temporary files are.
    """

    def __init__(self, *, memory_bytes: int, file_bytes: int = 0, directory: str | None = None) -> None:
        self._memory_bytes = memory_bytes
        self._file_bytes = file_bytes
        self._directory = directory
        self._in_memory: OrderedDict[_Key, SavedCells] = OrderedDict()
        self._in_files: OrderedDict[_Key, tuple[IO[bytes], int]] = OrderedDict()
        self.used_memory_bytes = 0
        self.used_file_bytes = 0

    def __len__(self) -> int:
        return len(self._in_memory) + len(self._in_files)

    @property
    def most_bytes(self) -> int:
        """More cannot be kept of one sequence."""
        return self._memory_bytes

    def put(self, key: _Key, saved: SavedCells) -> list[_Key]:
        """Keep cells under a new key; the keys that had to go for them, which may be this one."""
        self._in_memory[key] = saved
        self.used_memory_bytes += saved.nbytes
        gone = []
        while self.used_memory_bytes > self._memory_bytes:
            oldest, cells = self._in_memory.popitem(last=False)
            self.used_memory_bytes -= cells.nbytes
            gone += self._spill(oldest, cells)
        return gone

    def get(self, key: _Key) -> SavedCells | None:
        """The cells; None where the file cannot be read, and then they are gone."""
        if key in self._in_memory:
            self._in_memory.move_to_end(key)
            return self._in_memory[key]
        file, size = self._in_files[key]
        self._in_files.move_to_end(key)
        try:
            file.seek(0)
            cells = np.frombuffer(file.read(size), np.uint8)
        except OSError as error:
            _logger.warning("a saved prefix cannot be read: %s", error)
            cells = np.empty(0, np.uint8)
        return cells if cells.nbytes == size else None

    def drop(self, key: _Key) -> None:
        """Forget a key, if it is there."""
        if (cells := self._in_memory.pop(key, None)) is not None:
            self.used_memory_bytes -= cells.nbytes
        elif key in self._in_files:
            self._forget_file(key)

    def close(self) -> None:
        """Forget all."""
        for key in (*self._in_memory, *self._in_files):
            self.drop(key)

    def _spill(self, key: _Key, cells: SavedCells) -> list[_Key]:
        if cells.nbytes > self._file_bytes:
            return [key]
        gone = []
        while self.used_file_bytes + cells.nbytes > self._file_bytes:
            oldest = next(iter(self._in_files))
            self._forget_file(oldest)
            gone.append(oldest)
        try:
            file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115  # it lives until it is dropped
            file.write(cells.data)
            file.flush()
        except OSError as error:
            _logger.warning("a prefix cannot be saved to a file: %s", error)
            return [*gone, key]
        self._in_files[key] = (file, cells.nbytes)
        self.used_file_bytes += cells.nbytes
        return gone

    def _forget_file(self, key: _Key) -> None:
        file, size = self._in_files.pop(key)
        file.close()
        self.used_file_bytes -= size
