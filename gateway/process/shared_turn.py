"""Work that is done once at a time, and once for all who ask while it is under way."""

import asyncio
from collections.abc import Awaitable, Callable


class SharedTurn:
    """Turns of ``work``. Whoever asks while one is under way shares the next, which sees what they have seen.

    ``lock`` is held during a turn: who holds it knows that none is under way.
    """

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self.lock = asyncio.Lock()
        self._work = work
        self._asked = self._answered = 0

    async def take(self) -> None:
        """Returns when a turn is over that began after this was asked."""
        self._asked += 1
        mine = self._asked
        async with self.lock:
            if self._answered < mine:
                self._answered = self._asked
                await self._work()
