"""An event loop on which time passes only when nobody has anything to do: hours in a moment, and always the same."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Impatient(selectors.DefaultSelector):
    """Waits for nobody: it moves the loop's clock on instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout:
            self.now_s += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose ``time`` is the sum of all that was waited for."""

    def __init__(self) -> None:
        self._impatient = _Impatient()
        super().__init__(self._impatient)

    def time(self) -> float:
        """Seconds since it was made."""
        return self._impatient.now_s


class LoopClock:
    """The ``Clock`` port on the running loop's time."""

    def now_s(self) -> float:
        """Monotonic seconds."""
        return asyncio.get_running_loop().time()

    def unix_s(self) -> float:
        """Seconds since the epoch."""
        return 1_700_000_000.0 + self.now_s()

    async def sleep(self, seconds: float) -> None:
        """Returns after ``seconds`` of virtual time."""
        await asyncio.sleep(seconds)


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Runs ``main`` to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
