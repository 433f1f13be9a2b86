import asyncio
import time

import pytest

from gateway.clock import SystemClock, until_set


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


@pytest.mark.parametrize(("event_is_set", "at_most_s"), [(True, 3600.0), (False, 0.0)])
async def test_waiting_ends_with_the_event_or_with_the_time(event_is_set: bool, at_most_s: float) -> None:
    """Whichever comes first; what was waited for besides is not left behind."""
    event = asyncio.Event()
    if event_is_set:
        event.set()
    before = asyncio.all_tasks()
    await until_set(event, SystemClock(), at_most_s=at_most_s)
    await asyncio.sleep(0)
    assert before == asyncio.all_tasks()
    assert event_is_set == event.is_set()
