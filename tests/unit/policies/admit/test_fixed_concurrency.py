"""Places, a queue, and what is said to those who get neither."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.admission import Unbounded
from gateway.errors import Overloaded
from gateway.types import Context
from policies.admit.fixed_concurrency import FixedConcurrency

Make = Callable[..., Any]


class Guests:
    """Requests that enter when told and leave when told, in tasks of their own."""

    def __init__(self, door: FixedConcurrency, ctx: Context) -> None:
        self.door = door
        self.inside: list[int] = []
        self._ctx = ctx
        self._leave: dict[int, asyncio.Event] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}

    async def come(self, *numbers: int) -> None:
        """Each knocks, and is in, in the queue or refused when this returns."""
        for number in numbers:
            self._leave[number] = asyncio.Event()
            self.tasks[number] = asyncio.create_task(self._stay(number))
        await settle()

    async def go(self, number: int) -> None:
        """Leaves its place."""
        self._leave[number].set()
        await settle()

    async def _stay(self, number: int) -> None:
        async with self.door.admit(self._ctx, Unbounded()):
            self.inside.append(number)
            try:
                await self._leave[number].wait()
            finally:
                self.inside.remove(number)


async def settle() -> None:
    """Lets every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


@asynccontextmanager
async def open_house(door: FixedConcurrency, ctx: Context) -> AsyncIterator[Guests]:
    """Guests, all of whom are gone at the end; then nothing may be held."""
    guests = Guests(door, ctx)
    yield guests
    for task in guests.tasks.values():
        task.cancel()
    await asyncio.gather(*guests.tasks.values(), return_exceptions=True)
    assert (0, 0) == (door.in_flight, door.waiting)


async def test_so_many_run_and_the_next_enters_when_one_leaves(make_context: Make) -> None:
    """First come, first served."""
    async with open_house(FixedConcurrency(limit=2, queue=5), make_context()) as guests:
        await guests.come(1, 2, 3, 4)
        assert ([1, 2], 2, 2) == (guests.inside, guests.door.in_flight, guests.door.waiting)
        await guests.go(2)
        assert ([1, 3], 2, 1) == (guests.inside, guests.door.in_flight, guests.door.waiting)


async def test_a_full_queue_refuses_at_once_and_says_when_to_come_back(make_context: Make) -> None:
    """Before anything has ended, the longest wait stands in for how long a place is held."""
    async with open_house(FixedConcurrency(limit=2, queue=3, wait_s=10), make_context()) as guests:
        await guests.come(1, 2, 3, 4, 5)
        with pytest.raises(Overloaded, match="2 requests are running and 3 are waiting") as caught:
            async with guests.door.admit(make_context(), Unbounded()):
                pytest.fail("there was no place")
        assert 20 == caught.value.retry_after_s  # four to go, two at a time, 10 s each
        assert 503 == caught.value.http_status


async def test_without_a_queue_nobody_waits(make_context: Make) -> None:
    """Zero is a queue without room."""
    async with open_house(FixedConcurrency(limit=1, queue=0), make_context()) as guests:
        await guests.come(1, 2)
        assert isinstance(guests.tasks[2].exception(), Overloaded)


async def test_a_turn_that_does_not_come_in_time_ends_in_a_refusal(make_context: Make) -> None:
    """And the place that comes free later goes to who still waits."""
    async with open_house(FixedConcurrency(limit=1, queue=5, wait_s=1e-6), make_context()) as guests:
        await guests.come(1)
        with pytest.raises(Overloaded, match=r"no place came free within 1e-06 s") as caught:
            async with guests.door.admit(make_context(), Unbounded()):
                pytest.fail("there was no place")
        assert 1 == caught.value.retry_after_s
        assert (1, 0) == (guests.door.in_flight, guests.door.waiting)


async def test_the_time_to_come_back_follows_how_long_places_are_held(
    make_context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the event loop's clock; a running mean, in which a new sample counts a tenth."""
    now_s = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s)
    door = FixedConcurrency(limit=1, queue=0, wait_s=10)
    for held_s in (4.0, 14.0):
        async with door.admit(make_context(), Unbounded()):
            now_s += held_s
    async with door.admit(make_context(), Unbounded()):
        with pytest.raises(Overloaded) as caught:
            async with door.admit(make_context(), Unbounded()):
                pytest.fail("there was no place")
    assert pytest.approx(5.0) == caught.value.retry_after_s


async def test_a_block_that_fails_gives_its_place_back(make_context: Make) -> None:
    """And its error is not ours to keep."""
    door = FixedConcurrency(limit=1, queue=0)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            async with door.admit(make_context(), Unbounded()):
                raise ZeroDivisionError
    assert 0 == door.in_flight


async def test_a_waiter_that_is_cancelled_leaves_the_queue(make_context: Make) -> None:
    """Those behind it move up."""
    async with open_house(FixedConcurrency(limit=1, queue=2), make_context()) as guests:
        await guests.come(1, 2, 3)
        guests.tasks[2].cancel()
        await settle()
        assert 1 == guests.door.waiting
        await guests.come(4)
        await guests.go(1)
        assert [3] == guests.inside


async def test_a_waiter_cancelled_just_after_its_turn_came_passes_the_place_on(make_context: Make) -> None:
    """The place is granted before the task runs; the cancellation meets it in between."""
    async with open_house(FixedConcurrency(limit=1, queue=5), make_context()) as guests:
        async with guests.door.admit(make_context(), Unbounded()):
            await guests.come(2, 3)
        guests.tasks[2].cancel()
        await settle()
        assert ([3], True, 1) == (guests.inside, guests.tasks[2].cancelled(), guests.door.in_flight)


async def test_a_waiter_cancelled_just_before_its_turn_is_passed_over(make_context: Make) -> None:
    """In the same tick in which the place comes free."""
    async with open_house(FixedConcurrency(limit=1, queue=5), make_context()) as guests:
        await guests.come(1, 2, 3)
        guests.tasks[2].cancel()
        await guests.go(1)
        assert ([3], 1) == (guests.inside, guests.door.in_flight)


async def test_no_newcomer_overtakes_those_who_wait(make_context: Make) -> None:
    """A place given to a waiter that has not run yet is taken."""
    async with open_house(FixedConcurrency(limit=1, queue=5), make_context()) as guests:
        await guests.come(1, 2)
        guests._leave[1].set()
        await asyncio.sleep(0)
        await guests.come(3)
        assert [2] == guests.inside


@pytest.mark.parametrize("seed", range(40))
async def test_no_interleaving_leaks_a_place_or_lets_in_too_many(seed: int, make_context: Make) -> None:
    """Arrivals, departures, cancellations and time-outs in any order, some of them in the same tick."""
    dice = random.Random(seed)  # noqa: S311  # a repeatable shuffle, no secret
    limit = dice.randint(1, 3)
    door = FixedConcurrency(limit=limit, queue=dice.randint(0, 4), wait_s=dice.choice([1e-6, 1e-4, 60.0]))
    async with open_house(door, make_context()) as guests:
        for number in range(120):
            if dice.random() < 0.6:
                guests._leave[number] = asyncio.Event()
                guests.tasks[number] = asyncio.create_task(guests._stay(number))
            if guests.tasks and dice.random() < 0.5:
                guests._leave[dice.choice(list(guests.tasks))].set()
            if guests.tasks and dice.random() < 0.3:
                guests.tasks[dice.choice(list(guests.tasks))].cancel()
            for _ in range(dice.randint(0, 2)):
                await asyncio.sleep(0)
            assert len(guests.inside) <= door.in_flight <= limit
            assert door.waiting <= door.queue
        await settle()
        assert len(guests.inside) == door.in_flight


def test_one_instance_serves_one_event_loop_after_the_other(make_context: Make) -> None:
    """It belongs to none: a loop that ends with people waiting leaves nothing behind."""
    door = FixedConcurrency(limit=1, queue=5)

    async def crowd() -> int:
        guests = Guests(door, make_context())
        await guests.come(1, 2, 3)
        return door.waiting

    assert [2, 2] == [asyncio.run(crowd()), asyncio.run(crowd())]
    assert (0, 0) == (door.in_flight, door.waiting)


@pytest.mark.parametrize(
    "parameters",
    [{"limit": 0}, {"queue": -1}, {"wait_s": 0.0}, {"wait_s": float("inf")}, {"wait_s": float("nan")}],
)
def test_a_parameter_out_of_range_is_named(parameters: dict[str, Any]) -> None:
    """So that the loader can say where it stands."""
    with pytest.raises(ValueError, match=f"`{next(iter(parameters))}`"):
        FixedConcurrency(**parameters)
