import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from gateway.pipeline import Rules
from gateway.types import Status

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]


async def test_a_drain_without_patience_ends_streams_with_an_error_event(
    open_house: OpenHouse, make_exchange: Any, clock: Any, two_backends: Any, failing: Any
) -> None:
    """One error event and the end, nothing else; before the first byte it is a 503 of its own."""
    async with open_house(two_backends(failing("stall", "hang", after_chunks=1)), clock=clock) as house:
        streaming, starting = make_exchange(stream=True), make_exchange(stream=True)
        tasks = [house.begin(streaming)]
        await streaming.wrote.wait()
        tasks.append(house.begin(starting))
        await house.until(lambda: house.backend("first").open_calls == 2)
        shown = streaming.received
        await house.pipeline.drain(0)
        await asyncio.gather(*tasks)
        assert streaming.received.startswith(shown)
        (event,) = msgspec.json.decode(b"[%b]" % streaming.received[len(shown) :].strip()[6:])
        assert ("shutting_down", "close") == (event["error"]["code"], streaming.calls[-1])
        assert (503, "shutting_down") == (starting.status, starting.json["error"]["code"])
        assert {Status.TRUNCATED, Status.REJECTED} == {entry.outcome.status for entry in house.entries}
        assert {(Status.TRUNCATED,), (Status.REJECTED,)} == {
            tuple(attempt.status for attempt in entry.attempts) for entry in house.entries
        }
        assert house.is_quiet()


async def test_a_drain_lets_running_answers_finish_and_takes_nothing_new(
    open_house: OpenHouse, make_exchange: Any, hand_clock: Any, two_backends: Any
) -> None:
    """The one that runs is served to its end; the one that comes is told to come back elsewhere."""
    async with open_house(two_backends("first_token_s: 5"), clock=hand_clock) as house:
        running = make_exchange()
        task = house.begin(running)
        await hand_clock.asleep.wait()
        draining = asyncio.create_task(house.pipeline.drain(60))
        await asyncio.sleep(0)
        late = await house.serve(make_exchange())
        assert (503, "1", ["answer"]) == (late.status, late.answer_headers["retry-after"], late.calls)
        assert not draining.done()
        hand_clock.advance(5)
        await asyncio.gather(draining, task)
        assert 200 == running.status
        assert [Status.REJECTED, Status.OK] == [entry.outcome.status for entry in house.entries]


async def test_a_drain_of_nothing_is_over_at_once(open_house: OpenHouse, clock: Any, two_backends: Any) -> None:
    """And may be asked for again."""
    async with open_house(two_backends(), clock=clock) as house:
        await house.pipeline.drain(0)
        await house.pipeline.drain(0)
        assert house.pipeline.draining


async def test_settled_waits_for_those_that_run_now_only(
    open_house: OpenHouse, make_exchange: Any, hand_clock: Any, two_backends: Any
) -> None:
    """What comes later may run on: a reload closes old backends and need not wait for new requests."""
    async with open_house(two_backends("first_token_s: 5"), clock=hand_clock) as house:
        await house.pipeline.settled()
        tasks = [house.begin(make_exchange())]
        await hand_clock.asleep.wait()
        settled = asyncio.create_task(house.pipeline.settled())
        await asyncio.sleep(0)
        hand_clock.asleep.clear()
        hand_clock.advance(1)
        tasks.append(house.begin(make_exchange()))
        await hand_clock.asleep.wait()
        assert 2 == house.pipeline.running
        hand_clock.advance(4)
        await settled
        assert 1 == house.pipeline.running
        hand_clock.advance(1)
        await asyncio.gather(*tasks)


async def test_rules_may_be_swapped_while_requests_run(
    open_house: OpenHouse, make_exchange: Any, make_world: Any, hand_clock: Any, two_backends: Any
) -> None:
    """A request is served to its end by the rules under which it came."""
    async with open_house(two_backends("first_token_s: 5"), clock=hand_clock) as house:
        running = make_exchange()
        task = house.begin(running)
        await hand_clock.asleep.wait()
        house.pipeline.rules = Rules(make_world("backends: {other: {use: fake}}"), house.pipeline.rules.door)
        hand_clock.advance(5)
        await task
        late = await house.serve(make_exchange())
        assert (200, 404) == (running.status, late.status)
