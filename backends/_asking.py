"""Asking a server about itself beside the requests to it, for as long as a backend is open."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any


class Asking:
    """One task that asks, begun once and ended with the backend."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def begin(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Runs ``work`` until ``close``; ``name`` is the task's."""
        self._task = asyncio.get_running_loop().create_task(work, name=name)

    async def close(self) -> None:
        """Asks no more; idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
