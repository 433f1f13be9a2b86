import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from gateway.types import Status

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]


async def test_a_hang_up_while_queued_gives_the_place_to_the_next(
    open_house: OpenHouse, make_exchange: Any, clock: Any, two_backends: Any, failing: Any
) -> None:
    """Who leaves the queue is recorded as gone, was never sent anywhere, and holds nothing."""
    policy = two_backends(failing("hang"), route="admit: {use: fixed_concurrency, limit: 1, queue: 1}")
    async with open_house(policy, clock=clock) as house:
        running, waiting = make_exchange(), make_exchange()
        tasks = [house.begin(running), house.begin(waiting)]
        admitter = house.world.routes[0].admitter
        await house.until(lambda: admitter.waiting == 1)
        third = await house.serve(make_exchange())
        assert (503, "overloaded") == (third.status, third.json["error"]["code"])
        waiting.hang_up()
        await tasks[1]
        assert (0, 1) == (admitter.waiting, admitter.in_flight)
        running.hang_up()
        await tasks[0]
        assert [Status.REJECTED, Status.CLIENT_GONE, Status.CLIENT_GONE] == [
            entry.outcome.status for entry in house.entries
        ]
        assert [0, 0, 1] == [len(entry.attempts) for entry in house.entries]
        assert house.is_quiet()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_hang_up_before_the_first_byte_closes_the_upstream(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool, two_backends: Any, failing: Any
) -> None:
    """Nothing is sent to nobody; the attempt ends at once and is not held against the backend."""
    async with open_house(two_backends(failing("hang")), clock=clock) as house:
        exchange = make_exchange(stream=stream)
        task = house.begin(exchange)
        await house.until(lambda: house.backend("first").open_calls == 1)
        exchange.hang_up()
        await task
        assert 0 == task.cancelling()
        assert (["body"], 1, 0) == (
            exchange.calls,
            house.backend("first").closed_calls,
            house.backend("second").open_calls,
        )
        (attempt,) = house.entry.attempts
        assert (Status.CLIENT_GONE, 499) == (house.entry.outcome.status, house.entry.outcome.http_status)
        assert (Status.CLIENT_GONE, "CancelledError") == (attempt.status, attempt.error)
        assert attempt.usage.estimated
        assert house.is_quiet()


async def test_a_hang_up_in_the_middle_is_metered_and_ends_the_upstream(
    open_house: OpenHouse, make_exchange: Any, clock: Any, two_backends: Any, failing: Any
) -> None:
    """The tokens so far are on the ledger; no error event is written to nobody."""
    async with open_house(two_backends(failing("stall", after_chunks=2)), clock=clock) as house:
        exchange = make_exchange(stream=True)
        task = house.begin(exchange)
        await house.until(lambda: exchange.received.count(b"data:") == 3)
        exchange.hang_up()
        await task
        (attempt,) = house.entry.attempts
        assert (Status.CLIENT_GONE, 1) == (house.entry.outcome.status, house.backend("first").closed_calls)
        assert (True, 2) == (attempt.usage.estimated, attempt.usage.output_tokens)
        assert b"error" not in exchange.received
        assert house.is_quiet()


async def test_a_hang_up_while_the_body_is_on_its_way_is_recorded(
    open_house: OpenHouse, make_exchange: Any, clock: Any, two_backends: Any
) -> None:
    """The client left before it had said what it wants."""
    async with open_house(two_backends(), clock=clock) as house:
        exchange = make_exchange()
        exchange.sending.clear()
        task = house.begin(exchange)
        await house.until(lambda: exchange.task is not None)
        exchange.hang_up()
        await task
        assert (Status.CLIENT_GONE, None) == (house.entry.outcome.status, house.entry.request)


async def test_a_hang_up_while_being_told_of_an_error_is_no_bug(
    open_house: OpenHouse, make_exchange: Any, clock: Any, two_backends: Any, failing: Any
) -> None:
    """The client does not read the error event and leaves: it is gone, and the request still has one entry."""
    async with open_house(two_backends(failing("cut", after_chunks=1)), clock=clock) as house:
        exchange = make_exchange(stream=True)
        exchange.stops_at = b'"error"'
        task = house.begin(exchange)
        await exchange.blocked.wait()
        exchange.hang_up()
        await task
        assert (Status.CLIENT_GONE, [Status.TRUNCATED]) == (
            house.entry.outcome.status,
            [attempt.status for attempt in house.entry.attempts],
        )


async def test_a_cancellation_that_is_none_of_these_goes_on_upwards(
    open_house: OpenHouse, make_exchange: Any, clock: Any, two_backends: Any, failing: Any
) -> None:
    """Whoever cancels for a reason of their own gets their cancellation, and the ledger its entry."""
    async with open_house(two_backends(failing("hang")), clock=clock) as house:
        task = house.begin(make_exchange())
        await house.until(lambda: house.backend("first").open_calls == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert Status.BUG is house.entry.outcome.status
        assert house.is_quiet()
