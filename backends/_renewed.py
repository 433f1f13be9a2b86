"""Something that ends and is lent anew: a token, temporary credentials. Requests wait for it once, and then never."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from gateway.ports import Clock

T = TypeVar("T")

_AHEAD_SHARE = 0.2
_AHEAD_S = 300.0
_AGAIN_S = 5.0

_log = logging.getLogger(__name__)


class Loan(NamedTuple, Generic[T]):
    """A value, and for how many seconds it may be used."""

    value: T
    life_s: float


class Renewed(Generic[T]):
    """A value that is fetched when it is first wanted, and again before it ends, while the old one still serves.

    Many that wait share one fetch, which goes on though those who wait leave. A renewal that fails is in the log and is
    tried again 5 s later; only once the old value has ended do requests see why.

    Args:
        fetch: asks for a new one.
        clock: the time.
        what: its name, for the log.
    """

    def __init__(self, fetch: Callable[[], Awaitable[Loan[T]]], *, clock: Clock, what: str) -> None:
        self._fetch = fetch
        self._clock = clock
        self._what = what
        self._loan: Loan[T] | None = None
        self._ends_s = 0.0
        self._renew_at_s = 0.0
        self._fetching: asyncio.Task[Loan[T]] | None = None

    async def value(self) -> T:
        """The value; whatever ``fetch`` raises where there is none that still holds."""
        now_s = self._clock.now_s()
        if self._loan is not None and now_s < self._ends_s:
            if now_s >= self._renew_at_s:
                self._begin()
            return self._loan.value
        return (await asyncio.shield(self._begin())).value

    async def close(self) -> None:
        """Gives up a fetch that is under way; idempotent."""
        task, self._fetching = self._fetching, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    def _begin(self) -> "asyncio.Task[Loan[T]]":
        if self._fetching is None:
            self._fetching = asyncio.ensure_future(self._asked())
            self._fetching.add_done_callback(self._came)
        return self._fetching

    async def _asked(self) -> Loan[T]:
        return await self._fetch()

    def _came(self, task: "asyncio.Task[Loan[T]]") -> None:
        if self._fetching is task:
            self._fetching = None
        if task.cancelled():
            return
        now_s = self._clock.now_s()
        if error := task.exception():
            self._renew_at_s = now_s + _AGAIN_S
            _log.warning("%s could not be renewed: %s", self._what, error)
            return
        self._loan = loan = task.result()
        self._ends_s = now_s + loan.life_s
        self._renew_at_s = self._ends_s - min(_AHEAD_S, loan.life_s * _AHEAD_SHARE)
