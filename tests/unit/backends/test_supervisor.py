import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from backends._supervisor import keep_alive


class Lives:
    """Lives that the test ends."""

    def __init__(self, clock: Any) -> None:
        self.begun = 0
        self.running = asyncio.Event()
        self._clock = clock
        self._end: asyncio.Future[None] | None = None

    async def live(self) -> None:
        """One life."""
        self.begun += 1
        self._end = asyncio.get_running_loop().create_future()
        self.running.set()
        await self._end

    async def die_after(self, seconds: float, error: Exception | None = None) -> None:
        """Lets the present life last for so long and end."""
        await self.running.wait()
        self.running.clear()
        self._clock.asleep.clear()
        self._clock.advance(seconds)
        assert self._end is not None
        if error is None:
            self._end.set_result(None)
        else:
            self._end.set_exception(error)


@pytest.fixture
def supervised(hand_clock: Any) -> Callable[[], Any]:
    """Lives under a supervisor whose healthy age is 10 s, and whose waits are from 1 to 4 s."""

    @asynccontextmanager
    async def run() -> AsyncIterator[Lives]:
        lives = Lives(hand_clock)
        supervisor = asyncio.ensure_future(
            keep_alive(lives.live, clock=hand_clock, healthy_s=10.0, shortest_s=1.0, longest_s=4.0)
        )
        yield lives
        supervisor.cancel()
        with suppress(asyncio.CancelledError):
            await supervisor

    return run


async def test_early_deaths_make_it_wait_longer(supervised: Any, hand_clock: Any) -> None:
    """The wait doubles with every early death in a row, up to its bound."""
    async with supervised() as lives:
        for _ in range(4):
            await lives.die_after(1.0)
            await hand_clock.asleep.wait()
            hand_clock.advance(4.0)
    assert [1.0, 2.0, 4.0, 4.0] == hand_clock.slept_s


async def test_after_a_long_life_it_starts_at_once(supervised: Any, hand_clock: Any) -> None:
    """A death after a healthy life is followed by a new life without a wait, and the waits begin anew."""
    async with supervised() as lives:
        await lives.die_after(1.0)
        await hand_clock.asleep.wait()
        hand_clock.advance(1.0)
        await lives.die_after(10.0)
        await lives.running.wait()
        assert 3 == lives.begun
        await lives.die_after(1.0)
        await hand_clock.asleep.wait()
    assert [1.0, 1.0] == hand_clock.slept_s


async def test_a_life_that_fails_is_logged_and_followed_by_another(
    supervised: Any, hand_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """What a life raises ends neither the supervisor nor in silence."""
    async with supervised() as lives:
        await lives.die_after(0.0, OSError("no more processes"))
        await hand_clock.asleep.wait()
        hand_clock.advance(1.0)
        await lives.running.wait()
    assert 2 == lives.begun
    assert "no more processes" in caplog.text
