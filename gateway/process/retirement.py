"""Backends that a reloaded policy file no longer has: closed once the requests that may use them have ended."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from gateway.fleet.fleet import Fleet
from gateway.ports import Backend


class Retirement:
    """``settled`` returns when all requests that run at its call have ended."""

    def __init__(self, fleet: Fleet, settled: Callable[[], Awaitable[None]]) -> None:
        self._fleet = fleet
        self._settled = settled
        self._tasks: set[asyncio.Task[None]] = set()

    def retire(self, backends: Mapping[str, Backend]) -> None:
        """Closes these, in their own time."""
        for name in backends:
            self._fleet.forget(name)  # at once: nothing of the old one is true of who comes under its name
        if backends:
            task = asyncio.create_task(self._close_when_settled(backends), name="headrace-retire")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def done(self) -> None:
        """Returns when all are closed."""
        await asyncio.gather(*self._tasks)

    async def _close_when_settled(self, backends: Mapping[str, Backend]) -> None:
        await self._settled()
        for backend in backends.values():
            await backend.close()
