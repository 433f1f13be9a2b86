"""Runs a coroutine at once, from a callback of the event loop, up to where it has to wait.

What a stream's chunk brings about waits for nothing, as long as its client keeps up. To wake a task for it takes as
long as the rest: a turn of the event loop, and a dozen coroutines that each go on in order to wait again.
"""

import asyncio
from asyncio.tasks import _enter_task, _leave_task  # for those who step tasks themselves: asyncio's docs, "Extending"
from collections.abc import Awaitable, Generator
from typing import Any

Step = Awaitable[None]


class Rest:
    """What is left of a coroutine that has begun and waits, to be awaited by its task, once."""

    __slots__ = ("_error", "_step", "_waits_for")

    def __init__(self, step: Generator[Any, Any, None], waits_for: Any) -> None:
        self._step = step
        self._waits_for = waits_for
        self._error: BaseException | None = None

    def __await__(self) -> Generator[Any, Any, None]:
        """Goes on with it, and hands on what cancels it meanwhile."""
        step, waits_for = self._step, self._waits_for
        try:
            if self._error is not None:
                waits_for = step.throw(self._error)
            while True:
                try:
                    sent = yield waits_for
                except BaseException as error:  # noqa: BLE001  # the coroutine's own to judge, a cancellation too
                    waits_for = step.throw(error)
                else:
                    waits_for = step.send(sent)
        except StopIteration:
            return

    def after(self, error: BaseException) -> "Rest":
        """It, when its task was cancelled with ``error`` before it went on: the coroutine is what is cancelled."""
        self._error = error
        return self


def take_first_step(step: Step, task: asyncio.Task[Any], loop: asyncio.AbstractEventLoop) -> Rest | None:
    """Begins with ``step`` as if ``task`` did, which waits meanwhile; gives what is left where it has to wait.

    Not to be called by a task.
    """
    begun = step.__await__()
    _enter_task(loop, task)
    try:
        return Rest(begun, next(begun))
    except StopIteration:
        return None
    finally:
        _leave_task(loop, task)
