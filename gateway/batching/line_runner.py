"""Sends one line through the pipeline, as often as it takes to get an answer that is the line's own.

Where we say no (a limit, a queue, a shutdown) it waits and comes again, for as long as the window is open. Where a
backend fails it is tried a few times more. Everything else, good or bad, is its result.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from gateway.batching.batch import Batch
from gateway.batching.idle import Idle, Place
from gateway.batching.line_book import LineBook, Result
from gateway.batching.line_exchange import LineExchange
from gateway.batching.lines import BatchLine
from gateway.batching.results import answered
from gateway.door import Door, Knock, new_request_id
from gateway.errors import Unauthenticated
from gateway.pipeline import Pipeline
from gateway.ports import Clock
from gateway.worth import Precedence

Persist = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
"""Does something in the database, as often as it takes."""

MOST_TRIES = 4
"""Of a line whose backends fail."""

_PRIORITY = "batch"
_BUSY = 503
_REFUSALS = frozenset((429, _BUSY))
_OUTAGES = frozenset((408, 500, 502, 503, 504))
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 600.0
"""Of a line that a limit refuses for longer: somebody may raise it meanwhile."""


class LineRunner:
    """Runs the lines of one batch.

    Args:
        batch: whose they are.
        book: where their results go.
        pipeline: what serves them.
        idle: where there is room for them.
        clock: what they wait by.
        persist: how the book is written.
    """

    def __init__(
        self, batch: Batch, book: LineBook, pipeline: Pipeline, idle: Idle, *, clock: Clock, persist: Persist
    ) -> None:
        self._batch = batch
        self._book = book
        self._pipeline = pipeline
        self._idle = idle
        self._clock = clock
        self._persist = persist

    async def run(self, line: BatchLine) -> Result:
        """The line's result, which is in the book then."""
        tries = _Tries()
        while True:
            exchange, request_id = await self._send(line)
            wait_s = 0.0 if exchange.gone else tries.wait_s(exchange)
            if wait_s is None:
                result = answered(self._batch, line, exchange.status, request_id, exchange.answered)
                await self._persist(partial(self._book.end, result))
                return result
            await self._persist(partial(self._book.put_back, line.number))
            if wait_s:
                await self._clock.sleep(min(wait_s, _LONGEST_WAIT_S) + _spread_s(line, wait_s))

    async def _send(self, line: BatchLine) -> tuple[LineExchange, str]:
        """The exchange after it, and the id of its request."""
        headers = [(name.encode(), value.encode()) for name, value in self._batch.record.headers]
        exchange = LineExchange(self._batch.operation, headers, line.body)
        request_id = new_request_id()
        place = await self._idle.place(line.model, request_id)
        try:
            await self._persist(partial(self._book.begin, line.number, request_id, self._clock.unix_s()))
            await self._serve(exchange, place, request_id)
        finally:
            self._idle.leave(place)
        return exchange, request_id

    async def _serve(self, exchange: LineExchange, place: Place, request_id: str) -> None:
        serving = asyncio.get_running_loop().create_task(
            self._pipeline.handle(exchange, lambda door: knock(door, exchange, self._batch, request_id)),
            name="headrace-batch-line",
        )
        place.task = asyncio.current_task()
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            exchange.gone = not serving.done()
            serving.cancel()
            await asyncio.wait([serving])
            task = asyncio.current_task()
            if not place.given_back or (task is not None and task.uncancel()):
                raise
        finally:
            place.task = None


def knock(door: Door, exchange: LineExchange, batch: Batch, request_id: str) -> Knock:
    """Who a line is from: whose key the batch was made with, in the lowest class; nobody where it is another's now."""
    came = door.arrive(exchange, batch.record.key_sha256)
    identity, refusal = came.identity, came.refusal
    if refusal is None and identity.tenant != batch.tenant:
        refusal = Unauthenticated("the key that the batch was made with is another tenant's now")
    precedence = Precedence(priority=_PRIORITY, weight=identity.precedence.weight)
    return Knock(replace(came.arrival, id=request_id, precedence=precedence), identity, refusal)


class _Tries:
    """How often a line was refused, and how often its backends have failed."""

    __slots__ = ("_failures", "_refusals")

    def __init__(self) -> None:
        self._refusals = 0
        self._failures = 0

    def wait_s(self, exchange: LineExchange) -> float | None:
        """How long to wait before it is sent again; ``None`` where what was answered is its result."""
        told = exchange.header(b"retry-after")
        final = exchange.header(b"x-should-retry") == "false"  # to ask again at once is no use
        if final and not told and exchange.status != _BUSY:
            return None
        if (exchange.status == _BUSY and not final) or (exchange.status in _REFUSALS and told):
            self._refusals += 1
            return max(float(told) if told.isdigit() else 0.0, _FIRST_WAIT_S * 2.0 ** min(self._refusals - 1, 6))
        if exchange.status in _OUTAGES and self._failures + 1 < MOST_TRIES:
            self._failures += 1
            return _FIRST_WAIT_S * 4.0**self._failures
        return None


def _spread_s(line: BatchLine, wait_s: float) -> float:
    """Up to a quarter of what is waited and 15 s at most, for each line another: not all come back together."""
    return min(wait_s, 60.0) * hashlib.blake2b(line.custom_id.encode(), digest_size=1).digest()[0] / 1024
