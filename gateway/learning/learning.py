"""Keeps what policies have learned: in files over a restart, and in touch with the gateway's other replicas."""

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Iterable
from hashlib import blake2s
from pathlib import Path

from gateway.ports import Clock, Learner, Shared
from gateway.seldom import Seldom

SAVE_EVERY_S = 300.0

_MOST_FOLDERS = 8
_MOST_RECORD_BYTES = 64 * 1024 * 1024
_ENDING = ".learned"

_log = logging.getLogger(__name__)


class Learning:
    """One folder for each learner's configuration below ``directory``, one file for each of its records.

    The files of a learner are those of its parameters: one that is configured anew begins anew. What cannot be read or
    written is told in the log and goes no further: a gateway that has forgotten serves all the same.
    """

    def __init__(
        self, directory: Path, *, shared: Shared, clock: Clock, learners: Callable[[], Iterable[Learner]]
    ) -> None:
        self._directory = directory
        self._shared = shared
        self._clock = clock
        self._learners = learners
        self._complain = Seldom(_log)
        self._written: dict[Path, bytes] = {}
        self._begun: tuple[Learner, ...] = ()
        self._saving = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def begin(self, learners: Iterable[Learner]) -> None:
        """Gives each learner that is new here what it knew before, and the line to the replicas."""
        known, self._begun = self._begun, tuple(learners)
        for learner in self._begun:
            if any(learner is one for one in known):
                continue
            learner.share(self._shared)
            refused: dict[str, None] = {}  # records of one release are refused alike
            for record in await asyncio.to_thread(self._read, self._folder(learner)):
                try:
                    learner.resume(record)
                except ValueError as error:
                    refused[str(error)] = None
            for why in refused:
                _log.warning("what %s had learned is left behind, and learned anew: %s", type(learner).__name__, why)

    async def start(self) -> None:
        """Begins with the learners there are, and saves what they learn every five minutes."""
        await self.begin(self._learners())
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="headrace-learning")

    async def close(self) -> None:
        """Saves for the last time; idempotent."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        await self.save()

    async def save(self) -> None:
        """Writes the records that have changed."""
        async with self._saving:
            for learner in tuple(self._learners()):
                folder, names = self._folder(learner), set()
                for name, record in learner.learned():
                    path = folder / f"{_digest(name)}{_ENDING}"
                    names.add(path.name)
                    await self._write(path, record)
                await asyncio.to_thread(self._tidy, folder, names)

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(SAVE_EVERY_S)
            await self.save()

    async def _write(self, path: Path, record: bytes) -> None:
        try:
            self._written[path] = await asyncio.to_thread(_replace, path, record, self._written.get(path))
        except OSError as error:
            self._complain("what was learned cannot be kept: %s", error.strerror)

    def _read(self, folder: Path) -> list[bytes]:
        """The records of a folder."""
        try:
            return _records(folder)
        except OSError as error:
            self._complain("what was learned cannot be read: %s", error.strerror)
            return []

    def _tidy(self, folder: Path, names: set[str]) -> None:
        """Removes records that there are no more, and the folders of configurations that are long gone."""
        with contextlib.suppress(OSError):  # another worker may tidy as well
            for path in folder.glob(f"*{_ENDING}"):
                if path.name not in names:
                    path.unlink()
            folders = sorted(self._directory.iterdir(), key=lambda path: path.stat().st_mtime_ns)
            for old in folders[:-_MOST_FOLDERS]:
                shutil.rmtree(old, ignore_errors=True)

    def _folder(self, learner: Learner) -> Path:
        return self._directory / _folder_name(learner)


def kept_records(directory: Path, learner: Learner) -> list[bytes]:
    """What is kept of the learner below ``directory``; empty where that is nothing.

    Raises:
        OSError: it cannot be read.
    """
    return _records(directory / _folder_name(learner))


def _records(folder: Path) -> list[bytes]:
    """The records of a folder, the latest written last; none of a size that cannot be."""
    files = sorted(folder.glob(f"*{_ENDING}"), key=lambda path: path.stat().st_mtime_ns)
    return [path.read_bytes() for path in files if path.stat().st_size <= _MOST_RECORD_BYTES]


def _folder_name(learner: Learner) -> str:
    return f"{type(learner).__name__}-{_digest(repr(learner))}"


def _digest(text: str) -> str:
    return blake2s(text.encode(), digest_size=8).hexdigest()


def _replace(path: Path, record: bytes, written: bytes | None) -> bytes:
    """Writes the file whole or not at all, for its owner alone, unless its digest is that of what was ``written``."""
    digest = blake2s(record).digest()
    if digest == written:
        return digest
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.touch(mode=0o600)
    fresh.write_bytes(record)
    fresh.replace(path)
    return digest
