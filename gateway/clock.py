"""The real clock. Tests use one that they turn by hand."""

import asyncio
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The ``Clock`` port on the machine's own clocks and asyncio's timer."""

    def now_s(self) -> float:
        """Monotonic seconds; only differences mean something."""
        return time.monotonic()

    def unix_s(self) -> float:
        """Seconds since the epoch; may jump when the machine's clock is set."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Returns after ``seconds``."""
        await asyncio.sleep(seconds)
