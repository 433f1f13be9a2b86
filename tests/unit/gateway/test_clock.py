import asyncio
import time

from gateway.clock import SystemClock


def test_both_times_are_those_of_the_machine() -> None:
    """The monotonic and the civil time lie between two readings of the machine's own clocks."""
    clock = SystemClock()
    before = time.monotonic(), time.time()
    now = clock.now_s(), clock.unix_s()
    after = time.monotonic(), time.time()
    assert all(low <= value <= high for low, value, high in zip(before, now, after, strict=True))


async def test_sleeping_lets_others_run() -> None:
    """A sleep gives the loop away, so that another task gets its turn."""
    turn = asyncio.Event()
    task = asyncio.create_task(_set(turn))
    while not turn.is_set():
        await SystemClock().sleep(0)
    await task
    assert turn.is_set()


async def _set(turn: asyncio.Event) -> None:
    turn.set()
