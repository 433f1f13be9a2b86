"""A deadline that is moved far more often than it comes."""

import asyncio

from gateway.transport.deadline import Deadline
from tests.memory_server import TurnedLoop


async def test_it_comes_when_it_was_last_set_for() -> None:
    """Moved away or nearer, it comes once, at its time."""
    loop, came_s = TurnedLoop(), []
    deadline = Deadline(loop, lambda: came_s.append(loop.now_s))  # type: ignore[arg-type]  # a loop in all that matters
    begun_s = loop.now_s
    deadline.set(10)
    loop.advance(5)
    deadline.set(10)
    loop.advance(9)
    assert [] == came_s
    deadline.set(3)
    loop.advance(100)
    assert [begun_s + 17] == came_s


async def test_a_cleared_deadline_does_not_come() -> None:
    """Cleared or cancelled it never comes, and set again it does."""
    loop, came = TurnedLoop(), []
    deadline = Deadline(loop, lambda: came.append(True))  # type: ignore[arg-type]  # as above
    deadline.set(1)
    deadline.clear()
    loop.advance(100)
    deadline.set(1)
    deadline.cancel()
    loop.advance(100)
    assert [] == came
    deadline.set(1)
    loop.advance(1)
    assert [True] == came


async def test_moving_it_away_costs_no_timer() -> None:
    """A thousand requests on a connection leave one timer behind."""
    loop = TurnedLoop()
    deadline = Deadline(loop, lambda: None)  # type: ignore[arg-type]  # as above
    for _ in range(1000):
        deadline.set(75)
        deadline.clear()
        loop.advance(0.01)
    assert 1 == len([timer for timer in loop.timers if not timer.cancelled()])
    assert isinstance(loop.timers[0], asyncio.TimerHandle)
