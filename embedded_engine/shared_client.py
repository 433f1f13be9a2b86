"""Speaks with an engine that several processes share; whoever comes first starts it.

    engine = await SharedEngine.join(EngineSettings(model_path="model.gguf"), Path("/run/x/engine.sock"))

From there on it is as `client.py` says, but closing ends this connection alone. The engine ends with the last one: at
once when that was closed in order, after a few seconds when its process died.
"""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from embedded_engine.dialogue import Dialogue
from embedded_engine.frames import frame
from embedded_engine.generation import EngineDied
from embedded_engine.launch import engine_command
from embedded_engine.messages import Leave
from embedded_engine.settings import EngineSettings

if sys.platform != "win32":
    import fcntl

__all__ = ["SharedEngine"]

_logger = logging.getLogger(__name__)

_BACKLOG = 128
_LOCK_POLL_S = 0.01


class SharedEngine(Dialogue):
    """One of several connections to an engine process. Make it with `join`.

    Attributes:
        pid: The process; None until it has one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pid: int | None = None

    @classmethod
    async def join(cls, settings: EngineSettings, path: Path) -> Self:
        """Connect to the engine at the Unix socket `path`, or start it there if there is none.

        Returns before the model is loaded. Of several that find none, one starts it: who has the lock beside `path`.

        Args:
            settings: For starting it; one that runs already keeps its own.
            path: At most 103 bytes, which is all that an address has room for; in a directory that is private.

        Raises:
            OSError: There can be no socket, or no process.
        """
        while True:
            if (engine := await cls._find(path)) is not None:
                return engine
            with _lock(_lock_beside(path)) as lock:
                if lock is not None:
                    return await cls._find(path) or await cls._start(settings, path, lock)
            await asyncio.sleep(_LOCK_POLL_S)

    async def close(self) -> None:
        """Leave the engine to the others. Running requests raise `EngineDied`."""
        if self.alive:
            self._transport.write(frame(Leave()))
        self._end(EngineDied("the engine was closed"))

    def kill(self) -> None:
        """See `Dialogue.kill`. While the connection stands, the number is that of no other process."""
        if self.alive and self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    @classmethod
    async def _find(cls, path: Path) -> Self | None:
        engine = await cls._connect(path)
        if engine is not None:
            engine.pid = _read_pid(path)
        return engine

    @classmethod
    async def _connect(cls, path: Path) -> Self | None:
        try:
            _, engine = await asyncio.get_running_loop().create_unix_connection(cls, str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        return engine

    @classmethod
    async def _start(cls, settings: EngineSettings, path: Path, lock: int) -> Self:
        """Connects before there is a process: it cannot die so early that nobody hears of it.

        The others find the socket when the number of the process is written down, in the file of the lock.
        """
        hidden = path.with_suffix(".new")
        with _listen(hidden) as listening:
            engine = await cls._connect(hidden)
            if engine is None:
                raise ConnectionRefusedError(f"nobody can connect to {hidden}")
            try:
                engine.pid = _spawn(settings, listening)
                os.pwrite(lock, b"%20d" % engine.pid, 0)
                hidden.rename(path)
            except BaseException:
                await engine.close()
                raise
            return engine


def _listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)  # left by a start that was broken off
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(str(path))
        path.chmod(0o600)
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def _spawn(settings: EngineSettings, listening: socket.socket) -> int:
    """Starts the process, in a group of its own: it outlives its starter if others still need it. Gives its number.

    For the same reason it is no child of asyncio, which ends its children with itself.
    """
    process = subprocess.Popen(  # noqa: S603  # our own module
        engine_command("shared", listening.fileno(), settings),
        stdin=subprocess.DEVNULL,
        pass_fds=(listening.fileno(),),
        process_group=0,
    )
    _logger.info("engine process %d started", process.pid)
    threading.Thread(target=_reap, args=(process,), name="engine-reaper", daemon=True).start()
    return process.pid


def _reap(process: subprocess.Popen[bytes]) -> None:
    code = process.wait()
    _logger.info("engine process %d ended with code %d", process.pid, code)


def _lock_beside(path: Path) -> Path:
    return path.with_suffix(".lock")


def _read_pid(path: Path) -> int:
    return int(_lock_beside(path).read_bytes())


@contextmanager
def _lock(path: Path) -> Iterator[int | None]:
    """The lock's file if it is ours, for as long as the block runs, else None."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor if _try_lock(descriptor) else None
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
