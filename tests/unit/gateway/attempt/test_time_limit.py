import asyncio
import functools
from collections.abc import Callable, Coroutine

import pytest

from gateway.attempt.time_limit import TICK_S, TimeLimit, TimeLimits


class ClockedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is moved by hand: its timers ring when the test says what time it is."""

    now_s = 1000.0

    def time(self) -> float:
        """What the test says."""
        return self.now_s


def on_a_clocked_loop(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    """Runs the test on such a loop."""

    @functools.wraps(test)
    def run() -> None:
        with asyncio.Runner(loop_factory=ClockedLoop) as runner:
            runner.run(test())

    return run


async def _until(now_s: float) -> None:
    """Lets it be ``now_s``, and the loop notice."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ClockedLoop)
    while loop.now_s < now_s:
        loop.now_s = min(loop.now_s + TICK_S, now_s)
        await asyncio.sleep(0)
    for _ in range(4):
        await asyncio.sleep(0)


def _limit(due_s: float) -> TimeLimit:
    return TimeLimit(TimeLimits(asyncio.get_running_loop()), due_s)


async def _guarded(limit: TimeLimit, released: asyncio.Event) -> str:
    try:
        with limit:
            await released.wait()
    except TimeoutError:
        return "late"
    return "in time"


@on_a_clocked_loop
async def test_a_block_that_outlives_its_limit_ends_with_a_timeout() -> None:
    """The task goes on after it as if nothing had been cancelled."""
    task = asyncio.create_task(_guarded(_limit(1010.0), asyncio.Event()))
    await _until(1009.9)
    assert not task.done()
    await _until(1010.1)
    assert ("late", 0) == (await task, task.cancelling())


@on_a_clocked_loop
async def test_a_limit_can_move_away() -> None:
    """As often as it likes; the last word counts."""
    limit = _limit(1010.0)
    task = asyncio.create_task(_guarded(limit, asyncio.Event()))
    await _until(1005.0)
    limit.due_s = 1015.0
    limit.due_s = 1020.0
    await _until(1019.0)
    assert not task.done()
    await _until(1020.1)
    assert "late" == await task


@on_a_clocked_loop
async def test_a_limit_can_go_to_and_fro() -> None:
    """A stream moves it away and back with every chunk."""
    limit = _limit(1010.0)
    task = asyncio.create_task(_guarded(limit, asyncio.Event()))
    for now_s in (1001.0, 1002.0, 1003.0):
        await _until(now_s)
        limit.due_s = 1900.0
        limit.due_s = now_s + 10
    await _until(1012.9)
    assert not task.done()
    await _until(1013.1)
    assert "late" == await task


@on_a_clocked_loop
async def test_a_limit_can_move_closer() -> None:
    """What had until the deadline may get less time than that."""
    limit = _limit(1900.0)
    task = asyncio.create_task(_guarded(limit, asyncio.Event()))
    await _until(1001.0)
    limit.due_s = 1002.0
    await _until(1002.1)
    assert "late" == await task


@on_a_clocked_loop
async def test_a_block_that_ends_in_time_leaves_no_timer() -> None:
    """Nothing rings later, and nothing ticks any more."""
    released = asyncio.Event()
    limits = TimeLimits(asyncio.get_running_loop())
    limit = TimeLimit(limits, 1010.0)
    task = asyncio.create_task(_guarded(limit, released))
    await _until(1001.0)
    released.set()
    assert "in time" == await task
    await _until(1011.0)
    assert (False, 0, False) == (limit.expired, task.cancelling(), limits.ticks)


@on_a_clocked_loop
async def test_limits_of_one_loop_end_each_in_its_time() -> None:
    """Those that share a tick, those that do not, and one that comes when nothing had ticked for a while."""
    limits, never = TimeLimits(asyncio.get_running_loop()), asyncio.Event()
    tasks = [asyncio.create_task(_guarded(TimeLimit(limits, due_s), never)) for due_s in (1001.0, 1001.001, 1003.0)]
    await _until(1002.0)
    assert [True, True, False] == [task.done() for task in tasks]
    await _until(1004.0)
    assert ["late"] * 3 == [await task for task in tasks]
    await _until(1500.0)
    assert not limits.ticks
    task = asyncio.create_task(_guarded(TimeLimit(limits, 1501.0), never))
    await _until(1500.9)
    assert not task.done()
    await _until(1501.1)
    assert "late" == await task


@on_a_clocked_loop
async def test_a_limit_that_has_passed_before_it_begins_ends_its_block_at_once() -> None:
    """At the next tick."""
    task = asyncio.create_task(_guarded(_limit(999.0), asyncio.Event()))
    await _until(1000.1)
    assert "late" == await task


@on_a_clocked_loop
async def test_somebody_elses_cancellation_stays_a_cancellation() -> None:
    """Also where the limit is passed in the same moment."""
    task = asyncio.create_task(_guarded(_limit(1010.0), asyncio.Event()))
    await _until(1001.0)
    task.cancel()
    asyncio.get_running_loop().now_s = 1010.1
    with pytest.raises(asyncio.CancelledError):
        await task
