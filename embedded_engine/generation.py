"""The caller's end of one request."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from embedded_engine.messages import Accepted, Done, Echo, Failed, Generate, Text

__all__ = ["EngineDied", "Generation", "RequestFailed"]


class EngineDied(Exception):
    """The engine process is gone, or broke the protocol or stood still and was ended."""


class RequestFailed(Exception):
    """The engine refused or failed one request; `code` and `param` are those of `Failed`."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message)
        self.code = failed.code
        self.param = failed.param


class Generation(AsyncIterator[Accepted | Echo | Text | Done]):
    """The events of one request, in order; ends after the last choice's `Done`.

    Events wait here until they are taken. A consumer that never comes holds at most one `Accepted`, one `Done` a choice
    and one `Text` or `Echo` a token: that is bounded by the prompt and `n` x `max_tokens`, which the engine bounds by
    its context.

    `receive` and `finish` are for `EngineProcess`, all else is for the caller.
    """

    def __init__(self, request: Generate, forget: Callable[[int], None]) -> None:
        self.id = request.id
        self._forget = forget
        self._unfinished_choices = request.n
        self._events: deque[Accepted | Echo | Text | Done] = deque()
        self._end: Exception | None = None
        self._arrival: asyncio.Future[None] | None = None

    async def __anext__(self) -> Accepted | Echo | Text | Done:
        """The next event.

        Raises:
            RequestFailed: The engine refused or failed the request.
            EngineDied: The process is gone.
        """
        while not self._events:
            if self._end is not None:
                raise self._end
            self._arrival = asyncio.get_running_loop().create_future()
            try:
                await self._arrival
            finally:
                self._arrival = None
        return self._events.popleft()

    def cancel(self) -> None:
        """Free the slot; harmless when the request is over. Iteration ends after the events that are already here."""
        if self._end is None:
            self._forget(self.id)
            self.finish(StopAsyncIteration())

    async def aclose(self) -> None:
        """Cancel, in the form that `contextlib.aclosing` calls."""
        self.cancel()

    def receive(self, event: Accepted | Echo | Text | Done | Failed) -> bool:
        """Take one event from the engine; True when it was the last."""
        if isinstance(event, Failed):
            self.finish(RequestFailed(event))
            return True
        self._events.append(event)
        if isinstance(event, Done):
            self._unfinished_choices -= 1
            if self._unfinished_choices == 0:
                self.finish(StopAsyncIteration())
                return True
        self._wake()
        return False

    def finish(self, end: Exception) -> None:
        """Nothing more comes: raise `end` after the events that are already here."""
        if self._end is None:
            self._end = end
            self._wake()

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
