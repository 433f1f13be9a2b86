"""The parent of several workers: starts them, passes on what it is told, replaces those that die, and serves nobody.

It holds the address, so that one port is everybody's. The first worker starts alone: what cannot be started is told
once, and is the end. From then on a worker that dies is started again, sooner after a long life than after a short one.
"""

import asyncio
import logging
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress

import msgspec
from tenacity import AsyncRetrying, retry_if_exception_type, wait_exponential

from gateway.process.listening import Listening
from gateway.process.run_directory import RunDirectory
from gateway.process.worker_line import DRAIN, END_NOW, NOT_STARTED, RELOAD, SERVING, Assignment

HEALTHY_S = 60.0
"""After a life of so long a worker is started again at once."""
RESTART_MIN_S = 0.5
RESTART_MAX_S = 30.0
LAST_PATIENCE_S = 30.0
"""How long a worker may take to end, when its time to drain is over, before it is killed."""

_log = logging.getLogger(__name__)


class _DiedYoung(Exception):
    """It lived for less than a healthy time."""


class Workers:
    """Runs workers until it is told to stop.

    Args:
        count: How many.
        command: What starts one; ``--worker`` and its assignment come behind it.
        listening: The address for all.
        run_dir: Where they meet.
        drain_s: How long their running answers may go on.
    """

    def __init__(
        self, count: int, *, command: Sequence[str], listening: Listening, run_dir: RunDirectory, drain_s: float
    ) -> None:
        self._count = count
        self._command = tuple(command)
        self._listening = listening
        self._run_dir = run_dir
        self._drain_s = drain_s
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._lines: dict[int, asyncio.StreamWriter] = {}
        self._starting: set[int] = set()
        self._served = asyncio.Event()
        self._stopping = asyncio.Event()

    async def run(self) -> int:
        """Returns the exit code when all of them have ended: 0, or the first worker's if it could not start."""
        loop = asyncio.get_running_loop()
        signals = {signal.SIGTERM: self._stop, signal.SIGINT: self._stop}
        if sys.platform != "win32":
            signals[signal.SIGHUP] = lambda: self._tell_all(RELOAD)
        for number, handler in signals.items():
            loop.add_signal_handler(number, handler)
        try:
            return await self._run()
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    async def _run(self) -> int:
        first = asyncio.create_task(self._live(0))
        served = asyncio.create_task(self._served.wait())
        await asyncio.wait((first, served), return_when=asyncio.FIRST_COMPLETED)
        served.cancel()
        if not self._served.is_set():
            code = await first
            return 0 if self._stopping.is_set() else abs(code)
        for url in self._listening.urls():
            _log.info("running on %s", url)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep(0, first))
            for worker in range(1, self._count):
                group.create_task(self._keep(worker))
        return 0

    async def _keep(self, worker: int, life: asyncio.Task[int] | None = None) -> None:
        """Starts the worker again whenever it has died, until all shall stop."""

        async def live_once() -> None:
            nonlocal life
            if self._stopping.is_set():
                return
            born_s = time.monotonic()
            present, life = life or asyncio.create_task(self._live(worker)), None
            code = await present
            if not self._stopping.is_set():
                _log.warning("worker %d ended with code %d and is started again", worker, code)
                if time.monotonic() - born_s < HEALTHY_S:
                    raise _DiedYoung

        while not self._stopping.is_set():
            async for attempt in AsyncRetrying(
                sleep=self._rest,
                wait=wait_exponential(multiplier=RESTART_MIN_S, max=RESTART_MAX_S),
                retry=retry_if_exception_type(_DiedYoung),
            ):
                with attempt:
                    await live_once()

    async def _live(self, worker: int) -> int:
        """One life of a worker, from start to end; its exit code."""
        line, theirs = socket.socketpair()
        try:
            process = await self._start(worker, theirs)
        except OSError as error:
            line.close()
            _log.error("worker %d cannot be started: %s", worker, error)  # the words are the whole story
            return NOT_STARTED
        reader, writer = await asyncio.open_unix_connection(sock=line)
        self._processes[worker], self._lines[worker] = process, writer
        self._starting.add(worker)
        if self._stopping.is_set():
            self._tell_all_that_start()
        try:
            with suppress(ConnectionError):  # it died: its exit code says the rest
                if await reader.read(1) == SERVING:
                    self._starting.discard(worker)
                    _log.info("worker %d serves (process %d)", worker, process.pid)
                    self._served.set()
            return await process.wait()
        finally:
            del self._processes[worker], self._lines[worker]
            self._starting.discard(worker)
            writer.close()

    async def _start(self, worker: int, line: socket.socket) -> asyncio.subprocess.Process:
        """The process, in a group of its own: Ctrl-C in a terminal is for the parent to hear and to pass on."""
        with ExitStack() as given:
            given.callback(line.close)
            sockets = [given.enter_context(listening) for listening in self._listening.for_worker()]
            assignment = Assignment(
                worker=worker,
                run_dir=str(self._run_dir.path),
                lock=self._run_dir.lock,
                line=line.fileno(),
                listening=tuple(listening.fileno() for listening in sockets),
            )
            return await asyncio.create_subprocess_exec(
                *(*self._command, "--worker", msgspec.json.encode(assignment).decode()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(assignment.line, assignment.lock, *assignment.listening),
                process_group=0,
            )

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def _stop(self) -> None:
        if not self._stopping.is_set():
            _log.info("draining for up to %g s", self._drain_s)
            self._stopping.set()
            self._tell_all(DRAIN)
            self._tell_all_that_start()
            patience_s = self._drain_s + LAST_PATIENCE_S
        else:
            self._tell_all(END_NOW)
            patience_s = LAST_PATIENCE_S
        asyncio.get_running_loop().call_later(patience_s, self._kill_all)

    def _tell_all(self, word: bytes) -> None:
        for line in self._lines.values():
            line.write(word)

    def _tell_all_that_start(self) -> None:
        """By a signal: they listen to their line when they serve, and to load a model can take minutes."""
        for worker in self._starting:
            with suppress(ProcessLookupError):  # it has just ended
                self._processes[worker].terminate()

    def _kill_all(self) -> None:
        for worker, process in self._processes.items():
            _log.error("worker %d does not end and is killed", worker)
            process.kill()
