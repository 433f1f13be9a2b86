"""The time for which a request holds a place of its route's admitter, and what its client is told of the queue."""

from collections.abc import Coroutine
from types import TracebackType
from typing import Any

from gateway.admission import Queued, Visit
from gateway.ledger.journal import Journal


class Admitted:
    """The block of one request. Who met a queue is told its place there and the wait, in the answer or the refusal."""

    __slots__ = ("_journal", "_visit")

    def __init__(self, visit: Visit, journal: Journal) -> None:
        self._visit = visit
        self._journal = journal

    async def __aenter__(self) -> None:
        try:
            await self._visit.__aenter__()
        finally:
            queued = getattr(self._visit, "queued", None)  # a plain context manager will do for an admitter
            if queued is not None:
                self._journal.headers = (*self._journal.headers, *_headers(queued))

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Coroutine[Any, Any, None]:
        return self._visit.__aexit__(kind, error, trace)


def _headers(queued: Queued) -> tuple[tuple[bytes, bytes], ...]:
    """``x-headrace-queue-position``, and ``x-headrace-queue-wait-ms``: waited, or expected of one that is refused."""
    return (
        (b"x-headrace-queue-position", b"%d" % queued.position),
        (b"x-headrace-queue-wait-ms", b"%d" % round(queued.wait_s * 1000)),
    )
