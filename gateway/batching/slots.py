"""How many lines of a batch are in memory at once, whether they run or wait."""

import asyncio


class Slots:
    """So many, and so many bytes of them; one that alone is larger has them for itself."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._taken = 0
        self._taken_bytes = 0
        self._given_back = asyncio.Event()

    async def take(self, size_bytes: int) -> None:
        """Returns when there is room for one more of this size. For one taker at a time."""
        while self._taken >= self._most or (self._taken and self._taken_bytes + size_bytes > self._most_bytes):
            self._given_back.clear()
            await self._given_back.wait()
        self._taken += 1
        self._taken_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """One of this size is done."""
        self._taken -= 1
        self._taken_bytes -= size_bytes
        self._given_back.set()
