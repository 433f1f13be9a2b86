"""What the ledger was told and its database does not have yet: files in order, written before anything else is done.

Who serves appends, which is one write into the system's memory: it outlives the process from then on, and a power cut
where the system had the time. A thread reads, and takes files away that are in the database to the last frame. What was
appended last is at hand, and the file is read for nobody but who fell behind. Files are bounded in number; whoever has
one open holds a lock on it, so that those of a process which was killed are known, and taken over by the next one that
starts.
"""

import fcntl
import logging
import os
import secrets
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gateway.stores.rows import Rows
from gateway.stores.rows_at_hand import RowsAtHand
from gateway.stores.spool_frames import Columns, Spooled, frame, head, read_frames, read_head, unframed

SEGMENT_BYTES = 4 * 1024 * 1024
_SUFFIX = ".spool"

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Segment:
    """A file of the spool, and how far it was read. ``name`` is its own in all the world."""

    path: Path
    descriptor: int
    columns: Columns
    at: int
    size_bytes: int = 0

    @property
    def name(self) -> str:
        """Its name, by which the database knows how much of it it has."""
        return self.path.stem

    def read(self, most: int) -> list[Spooled]:
        """The next requests in it, after those that are done."""
        return read_frames(self.descriptor, self.at, most)

    def leave(self) -> None:
        """Gives it back as it is: another process may go on with it."""
        os.close(self.descriptor)

    def set_aside(self) -> None:
        """Keeps it for people to look at, under a name that nobody takes over."""
        self.path.rename(self.path.with_suffix(".damaged"))
        os.close(self.descriptor)

    def remove(self) -> None:
        """It is all in the database. Nobody else can have taken it over meanwhile: the lock goes last."""
        self.path.unlink(missing_ok=True)
        os.close(self.descriptor)


class Batch(NamedTuple):
    """Requests that are to go into the database together; without a file where they could not be written to one."""

    segment: Segment | None
    requests: list[Spooled]


@dataclass(slots=True, eq=False)
class Spool:
    """The files of one process in ``folder``, of ``most_bytes`` in all. Safe between two threads: a writer, a reader.

    While the files cannot be written, or are full, up to ``capacity`` requests wait in memory.
    """

    folder: Path
    most_bytes: int
    capacity: int
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _segments: deque[Segment] = field(default_factory=deque)
    _held: list[bytes] = field(default_factory=list)
    _handed_out: int = 0  # so many of those held, the first, are on their way to the database, and into no file
    _at_hand: RowsAtHand = field(default_factory=RowsAtHand)
    _waiting: int = 0

    @property
    def waiting(self) -> int:
        """How many requests are not in the database."""
        return self._waiting

    def open(self) -> None:
        """Makes the folder and its first file.

        Raises:
            OSError: that cannot be.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._segments.append(_new_segment(self.folder))

    def append(self, rows: Sequence[Rows]) -> tuple[int, int]:
        """Takes the rows of so many requests; how many waited before, and how many of these there was no room for."""
        frames = list(map(frame, rows))
        with self._lock:
            before, alone = self._waiting, not self._held
            self._held.extend(frames)
            self._waiting += len(frames)
            try:
                self._write()
            except OSError as error:
                _log.debug("the spool cannot be written: %s", error)
            if rows and alone and not self._held and self._segments:
                self._at_hand.put(self._segments[-1].name, self._segments[-1].size_bytes, frames, rows)
            lost = max(len(self._held) - max(self.capacity, self._handed_out), 0)
            if lost:
                del self._held[-lost:]
                self._waiting -= lost
            return before, lost

    def next_batch(self, most: int) -> Batch | None:
        """The oldest requests that are not done; ``None`` where there are none."""
        with self._lock:
            waiting = [(segment, self._at_hand.after(segment.name, segment.at, most)) for segment in self._segments]
        for segment, at_hand in waiting:
            if batch := at_hand or segment.read(most):
                return Batch(segment, batch)
        with self._lock:
            held = self._held[:most]
            self._handed_out = len(held)
        return Batch(None, [Spooled(0, unframed(framed)) for framed in held]) if held else None

    def done(self, batch: Batch) -> list[str]:
        """These are in the database. The names of files that nothing is left of, and which are gone."""
        with self._lock:
            self._waiting -= len(batch.requests)
            if batch.segment is None:
                del self._held[: len(batch.requests)]
                self._handed_out = 0
                return []
            batch.segment.at = batch.requests[-1].ends_at
            self._at_hand.drop(batch.segment.name, batch.segment.at)
            finished = [segment for segment in list(self._segments)[:-1] if segment.at >= segment.size_bytes]
            for segment in finished:
                self._segments.remove(segment)
        for segment in finished:
            segment.remove()
        return [segment.name for segment in finished]

    def close(self) -> int:
        """Takes away what is done, and leaves the rest for the next start; how many were in memory and are lost."""
        with self._lock:
            for segment in self._segments:
                segment.leave() if segment.at < segment.size_bytes else segment.remove()
            self._segments.clear()
            lost = len(self._held)
            self._held.clear()
            self._waiting -= lost
            return lost

    def _write(self) -> None:
        held = self._held[self._handed_out :]
        if not held or not self._segments:
            return
        if sum(segment.size_bytes - segment.at for segment in self._segments) >= self.most_bytes:
            raise OSError(f"the spool has {self.most_bytes} bytes, and the database takes nothing")
        if self._segments[-1].size_bytes >= SEGMENT_BYTES:
            self._segments.append(_new_segment(self.folder))
        segment, data = self._segments[-1], b"".join(held)
        written = 0
        while written < len(data):  # where it was cut short last time, it is written over
            written += os.pwrite(segment.descriptor, data[written:], segment.size_bytes + written)
        segment.size_bytes += len(data)
        del self._held[self._handed_out :]


def adopt(folder: Path) -> Iterator[Segment]:
    """The files of processes that are dead, oldest first, each locked; those that are none are told of and left."""
    for path in sorted(folder.glob(f"*{_SUFFIX}"), key=_age):
        descriptor = _locked(path)
        if descriptor is None:
            continue
        try:
            columns, begins = read_head(descriptor)
        except (ValueError, OSError) as error:
            _log.error("the spool %s cannot be read: %s", path, error)
            os.close(descriptor)
            continue
        yield Segment(path, descriptor, columns, begins, os.fstat(descriptor).st_size)


def _age(path: Path) -> tuple[float, str]:
    try:
        return path.stat().st_mtime, path.name
    except FileNotFoundError:
        return 0.0, path.name


def _new_segment(folder: Path) -> Segment:
    """A file of our own; under its name nobody sees it before it is locked."""
    name = secrets.token_hex(12)
    hidden = folder / f".{name}"
    descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        begins = os.write(descriptor, head())
        path = hidden.rename(folder / f"{name}{_SUFFIX}")
    except BaseException:
        os.close(descriptor)
        hidden.unlink(missing_ok=True)
        raise
    return Segment(path, descriptor, Columns(), begins, begins)


def _locked(path: Path) -> int | None:
    """A locked file; ``None`` where its process lives, or was faster."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None
