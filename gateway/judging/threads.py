"""Threads on which judges look at answers. One that does not come back is done without.

A judge may hang for ever, and no thread can be ended from outside. Nobody waits for such a thread: another one takes
its place, and neither the judges of other routes nor the end of the process are held up by it.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from time import monotonic
from typing import Any

COUNT = 2
MOST_LOST = 32
"""So many may be done without at a time; after that there are fewer and fewer to hear anybody."""


class Job:
    """A piece of work for ``whom``."""

    def __init__(self, whom: object, work: Callable[[], Any]) -> None:
        self.whom = whom
        self.work = work
        self.result: Future[Any] = Future()
        self.began_s = 0.0


class JudgeThreads:
    """A few threads, begun with the first piece of work. For one event loop."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Job | None] = SimpleQueue()
        self._lost: set[Job] = set()
        self._changing = threading.Lock()
        self._begun = False

    def begin(self, whom: object, work: Callable[[], Any]) -> Job:
        """Puts the work in line; its ``result`` has what came of it."""
        if not self._begun:
            self._begun = True
            for _ in range(COUNT):
                self._start()
        job = Job(whom, work)
        self._waiting.put(job)
        return job

    def leave(self, job: Job) -> None:
        """Nobody waits for it any more. Where it has begun, its thread is done without until it comes back."""
        if job.result.cancel():
            return
        with self._changing:
            if job.result.done() or len(self._lost) >= MOST_LOST:
                return
            self._lost.add(job)
        self._start()

    def hangs(self, whom: object, *, longer_than_s: float) -> bool:
        """Whether work for ``whom`` that nobody waits for is still not done after so long."""
        now_s = monotonic()
        with self._changing:
            return any(job.whom is whom and now_s - job.began_s > longer_than_s for job in self._lost)

    def close(self) -> None:
        """Ends the threads that have nothing to do; those that have are left alone. Idempotent."""
        for _ in range(COUNT if self._begun else 0):
            self._waiting.put(None)
        self._begun = False

    def _start(self) -> None:
        # Not waited for at the end of the process: who hangs would hold it up for ever.
        threading.Thread(target=self._work, name="headrace-judge", daemon=True).start()

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            job.began_s = monotonic()
            if not job.result.set_running_or_notify_cancel():
                continue
            result, error = _done(job.work)
            with self._changing:
                if error is None:
                    job.result.set_result(result)
                else:
                    job.result.set_exception(error)
                if job in self._lost:  # another thread has taken this one's place
                    self._lost.remove(job)
                    return


def _done(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return work(), None
    except BaseException as error:  # noqa: BLE001  # it is told to whoever waits
        return None, error
