"""The real clock, and waiting by any. Tests use one that they turn by hand."""

import asyncio
import time
from dataclasses import dataclass

from gateway.ports import Clock


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The ``Clock`` port on the machine's own clocks and asyncio's timer."""

    now_s = staticmethod(time.monotonic)
    """Monotonic seconds; only differences mean something. Asked some ten times a request, and once a chunk."""

    unix_s = staticmethod(time.time)
    """Seconds since the epoch; may jump when the machine's clock is set."""

    async def sleep(self, seconds: float) -> None:
        """Returns after ``seconds``."""
        await asyncio.sleep(seconds)


async def until_set(event: asyncio.Event, clock: Clock, *, at_most_s: float) -> None:
    """Returns when ``event`` is set, or after so long. Whether to clear it, and when, is the caller's to know."""
    news = asyncio.ensure_future(event.wait())
    later = asyncio.ensure_future(clock.sleep(at_most_s))
    try:
        await asyncio.wait((news, later), return_when=asyncio.FIRST_COMPLETED)
    finally:
        news.cancel()
        later.cancel()
