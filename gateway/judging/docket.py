"""Answers that wait for their judges, after they were served: bounded, and off every request's path."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from gateway.judgement import JudgedAnswer
from gateway.judging.court import Court, Opinion, ReadAnswer
from gateway.ports import Clock
from gateway.rules.judging import Judging
from gateway.seldom import Seldom
from gateway.types import ChatRequest

_AT_ONCE = 2
_CLOSE_S = 5.0

_log = logging.getLogger(__name__)


@runtime_checkable
class JudgedSink(Protocol):
    """Makes something of judged answers: metrics, spans, rows, what is learned. On the event loop: quick, no I/O."""

    def take_judged(self, judged: JudgedAnswer) -> None:
        """Takes one judged answer."""
        ...


class Case(Struct, frozen=True, kw_only=True):
    """An answer that waits, of ``length_bytes``. ``draft`` is its record, but for what will be said of it."""

    judging: Judging
    request: ChatRequest
    read: ReadAnswer
    length_bytes: int
    draft: JudgedAnswer


Note = Callable[[str, str], None]
"""Takes a route and a reason."""


def _nobody(route: str, reason: str) -> None:
    """Takes note of nothing."""


class Docket:
    """Cases in the order in which they came; what finds no room is ``skipped``, by its reason.

    ``capacity`` and ``capacity_bytes`` bound what waits.
    """

    def __init__(
        self, court: Court, *, clock: Clock, capacity: int = 256, capacity_bytes: int = 16 * 1024 * 1024
    ) -> None:
        self.court = court
        self.skipped: Counter[str] = Counter()
        self._clock = clock
        self._capacity = capacity
        self._capacity_bytes = capacity_bytes
        self._sinks: tuple[JudgedSink, ...] = ()
        self._note: Note = _nobody
        self._waiting: deque[Case] = deque()
        self._waiting_bytes = 0
        self._workers: set[asyncio.Task[None]] = set()
        self._closed = False
        self._complain = Seldom(_log)

    @property
    def waiting(self) -> int:
        """How many cases wait."""
        return len(self._waiting)

    def tell(self, *sinks: JudgedSink, note: "Note | None" = None) -> None:
        """Whom judged answers are told from now on, and who takes note of what is skipped."""
        self._sinks = sinks
        self._note = note or _nobody

    def skip(self, route: str, reason: str) -> None:
        """Something of a route is not judged, or no copy of it sent; the reason is a word, of a few."""
        self.skipped[reason] += 1
        self._note(route, reason)

    def put(self, case: Case) -> None:
        """Takes a case, or drops it; returns at once."""
        full = len(self._waiting) >= self._capacity or self._waiting_bytes + case.length_bytes > self._capacity_bytes
        if self._closed or full:
            self.skip(case.draft.route, "shutting_down" if self._closed else "queue_full")
            return
        self._waiting.append(case)
        self._waiting_bytes += case.length_bytes
        if len(self._workers) < _AT_ONCE:
            worker = asyncio.get_running_loop().create_task(self._work(), name="headrace-docket")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    def record(self, judged: JudgedAnswer) -> None:
        """Tells everybody of a judged answer."""
        for sink in self._sinks:
            try:
                sink.take_judged(judged)
            except Exception as error:  # noqa: BLE001  # one's bug must not keep it from the others
                self._complain("%s failed with %s", type(sink).__qualname__, type(error).__qualname__)

    async def idle(self) -> None:
        """Returns when nothing waits and nobody judges."""
        while self._workers:
            await asyncio.wait(tuple(self._workers))

    async def close(self) -> None:
        """Lets what waits be judged for a few seconds, then drops the rest; idempotent."""
        self._closed = True
        if self._workers:
            await asyncio.wait(tuple(self._workers), timeout=_CLOSE_S)
        left = tuple(self._workers)
        for worker in left:
            worker.cancel()
        if left:
            await asyncio.wait(left)
        while self._waiting:
            self.skip(self._waiting.popleft().draft.route, "shutting_down")
        await self.court.close()

    async def _work(self) -> None:
        while self._waiting:
            case = self._waiting.popleft()
            self._waiting_bytes -= case.length_bytes
            started_unix_s = self._clock.unix_s()
            opinion = await self.court.hear(case.judging, case.request, case.read)
            times = (started_unix_s, self._clock.unix_s())
            self.record(with_opinion(case.draft, opinion, times))


def with_opinion(
    draft: JudgedAnswer, opinion: Opinion, times_unix_s: tuple[float, float], *, escalated_for: str = ""
) -> JudgedAnswer:
    """The record of an answer with what was said of it, between two moments."""
    return replace(
        draft,
        judgement=opinion.together,
        judgements=opinion.each,
        started_unix_s=times_unix_s[0],
        ended_unix_s=times_unix_s[1],
        escalated_for=escalated_for,
    )
