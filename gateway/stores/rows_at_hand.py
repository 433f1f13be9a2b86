"""Rows that were put into a file of the spool lately, so that nobody has to read what this process has just written."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from gateway.stores.rows import Rows
from gateway.stores.spool_frames import Spooled

MOST_REQUESTS = 512
"""Some 1.5 MiB: two batches. Who falls further behind reads the file."""


class _Run(NamedTuple):
    """What went into a file at once, from one offset to the next."""

    file: str
    begins_at: int
    requests: list[Spooled]


@dataclass(slots=True, eq=False)
class RowsAtHand:
    """The last ``MOST_REQUESTS``, in the order of the files. Not safe between threads."""

    _runs: deque[_Run] = field(default_factory=deque)
    _requests: int = 0

    def put(self, file: str, ends_at: int, frames: Sequence[bytes], rows: Sequence[Rows]) -> None:
        """Remembers the rows whose frames the file has just got, up to ``ends_at``; what is too much is forgotten."""
        begins_at, *ends = accumulate(map(len, frames), initial=ends_at - sum(map(len, frames)))
        self._runs.append(_Run(file, begins_at, list(map(Spooled, ends, rows))))
        self._requests += len(rows)
        while self._requests > MOST_REQUESTS:
            self._forget()

    def after(self, file: str, at: int, most: int) -> list[Spooled]:
        """Up to ``most`` requests that the file has from ``at`` on; none where it has others before those at hand."""
        found: list[Spooled] = []
        for run in self._runs:
            if (run.file, run.begins_at) != (file, at) or len(found) + len(run.requests) > most:
                break
            found += run.requests
            at = run.requests[-1].ends_at
        return found

    def drop(self, file: str, at: int) -> None:
        """Forgets what the file has before ``at``."""
        while self._runs and self._runs[0].file == file and self._runs[0].begins_at < at:
            self._forget()

    def _forget(self) -> None:
        self._requests -= len(self._runs.popleft().requests)
