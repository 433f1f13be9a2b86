"""A bounded queue that is fair, and says no in time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.admission import Unbounded
from gateway.errors import Overloaded
from gateway.forecast import Forecast
from gateway.price import Usage
from gateway.types import Context
from gateway.worth import Deadline, Precedence
from policies.admit.fair_queue import FairQueue

Make = Callable[..., Any]


def _context(
    make_context: Make, number: int, *, tenant: str = "a", priority: str = "standard", total_s: float | None = None
) -> Context:
    ctx = make_context()
    arrival = replace(ctx.request.arrival, id=f"r{number}", tenant=tenant, precedence=Precedence(priority=priority))
    return replace(
        ctx,
        request=replace(ctx.request, arrival=arrival, raw={"messages": b"[]"}),
        forecast=Forecast(prompt_tokens=0, output_tokens_p50=100, output_tokens_p90=200),
        deadline=Deadline(total_s=total_s) if total_s is not None else None,
    )


class Guests:
    """Requests that enter when told and leave when told, in tasks of their own."""

    def __init__(self, queue: FairQueue, make_context: Make) -> None:
        self.queue = queue
        self.inside: list[int] = []
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self._make_context = make_context
        self._leave: dict[int, asyncio.Event] = {}

    async def come(self, number: int, **fields: Any) -> None:
        """Knocks, and is in, in the queue or refused when this returns."""
        self._leave[number] = asyncio.Event()
        self.tasks[number] = asyncio.create_task(self._stay(number, _context(self._make_context, number, **fields)))
        await settle()

    async def go(self, number: int) -> None:
        """Leaves its place."""
        self._leave[number].set()
        await settle()

    async def _stay(self, number: int, ctx: Context) -> None:
        async with self.queue.admit(ctx, Unbounded()):
            self.inside.append(number)
            try:
                await self._leave[number].wait()
            finally:
                self.inside.remove(number)


async def settle() -> None:
    """Lets every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def open_house(make_context: Make) -> Any:
    """Guests, all of whom are gone at the end; then nothing may be held."""

    @asynccontextmanager
    async def open_(**fields: Any) -> AsyncIterator[Guests]:
        guests = Guests(FairQueue(**fields), make_context)
        yield guests
        for task in guests.tasks.values():
            task.cancel()
        await asyncio.gather(*guests.tasks.values(), return_exceptions=True)
        state = guests.queue._state
        assert (0, 0, 0, 0, {}) == (
            guests.queue.in_flight,
            guests.queue.waiting,
            state.queued_tokens,
            state.queued_bytes,
            state.turns,
        )

    return open_


def _refusal(guests: Guests, number: int) -> Overloaded:
    error = guests.tasks[number].exception()
    assert isinstance(error, Overloaded)
    return error


async def test_classes_go_in_their_order_and_tenants_take_turns(open_house: Any) -> None:
    """When a place comes free, not when somebody came."""
    async with open_house(limit=1) as guests:
        await guests.come(0, tenant="hog")
        for number, tenant, priority in (
            (1, "hog", "batch"),
            (2, "hog", "standard"),
            (3, "hog", "standard"),
            (4, "small", "standard"),
            (5, "hog", "interactive"),
        ):
            await guests.come(number, tenant=tenant, priority=priority)
        order = []
        for _ in range(6):
            (inside,) = guests.inside
            order.append(inside)
            await guests.go(inside)
        assert [0, 5, 4, 2, 3, 1] == order


async def test_a_full_queue_refuses_at_once_and_says_when_to_come_back(open_house: Any) -> None:
    """As long as the work that waits takes to drain: 100 tokens at 20 ms each, two of them, one at a time."""
    async with open_house(limit=1, queue=2) as guests:
        for number in range(4):
            await guests.come(number)
        error = _refusal(guests, 3)
        assert (503, "1 requests are running and 2 are waiting") == (error.http_status, error.message)
        assert pytest.approx(4.0) == error.retry_after_s


@pytest.mark.parametrize("bound", [{"queue_tokens": 150}, {"queue_bytes": 0}])
async def test_the_queue_is_bounded_in_tokens_and_bytes(open_house: Any, bound: dict[str, int]) -> None:
    """Few large requests fill it like many small ones."""
    async with open_house(limit=1, **bound) as guests:
        for number in range(3):
            await guests.come(number)
        assert "they are large" in _refusal(guests, 2).message


async def test_what_could_not_be_done_in_time_is_refused_at_the_door(open_house: Any) -> None:
    """Two seconds of work wait before it, and its own takes 1.3 times two: four are too few, five are not."""
    async with open_house(limit=1) as guests:
        await guests.come(0)
        await guests.come(1)
        await guests.come(2, total_s=4.0)
        await guests.come(3, total_s=5.0)
        assert "too long" in _refusal(guests, 2).message
        assert 2 == guests.queue.waiting


async def test_where_there_is_room_no_deadline_is_looked_at(open_house: Any) -> None:
    """Nobody knows better than the backend then."""
    async with open_house(limit=1) as guests:
        await guests.come(0, total_s=0.001)
        assert [0] == guests.inside


async def test_a_turn_that_does_not_come_in_time_ends_in_a_refusal(open_house: Any) -> None:
    """The place that comes free later goes to who still waits."""
    async with open_house(limit=1, wait_s=0.01) as guests:
        guests.queue._state.pace._seconds = 1e-6
        await guests.come(0)
        await guests.come(1)
        with pytest.raises(Overloaded, match="no place came free"):
            await guests.tasks[1]
        await guests.come(2)
        await guests.go(0)
        assert [2] == guests.inside


async def test_one_that_hangs_up_while_it_waits_gives_everything_back(open_house: Any) -> None:
    """Those behind it move up; one whose place had just come passes it on."""
    async with open_house(limit=1) as guests:
        for number in range(4):
            await guests.come(number)
        guests.tasks[1].cancel()
        await settle()
        assert 2 == guests.queue.waiting
        guests._leave[0].set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # the place is granted to 2, whose task has not run yet
        guests.tasks[2].cancel()
        await settle()
        assert [3] == guests.inside


async def test_a_finished_request_settles_what_its_tenant_was_charged(
    open_house: Any, make_entry: Make, make_request: Make
) -> None:
    """And shows how long a token takes."""
    async with open_house(limit=1) as guests:
        await guests.come(0, tenant="a")
        await guests.go(0)
        state = guests.queue._state
        assert 100.0 == state.order._served["a"]
        usage = Usage(prompt_tokens=200, output_tokens=30)
        entry = make_entry(make_request("hello", request_id="r0"), usage=usage)
        guests.queue.observe(entry)
        guests.queue.observe(entry)
        assert 40.0 == state.order._served["a"]
        assert {} == state.running
