"""Requests that wait for a place: what they are told, where they go, and what a hang-up or a reload does to them."""

import asyncio
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import ConfigurationError
from gateway.pipeline import Rules
from gateway.types import Status

POSITION, WAIT_MS = "x-headrace-queue-position", "x-headrace-queue-wait-ms"
HANG_ONCE = "fail: [{kind: hang}]"
ONE_PLACE = """
    backends: {only: {use: fake, text: one two, models: [small], concurrency: 1, %s}}
    routes: {main: {models: [small], targets: [only/small], admit: {use: %s}}}
"""
TWO_ROUTES = """
    backends:
      one: {use: fake, models: [small], concurrency: 1, fail: [{kind: hang}]}
      two: {use: fake, models: [small], concurrency: 1, fail: [{kind: hang}]}
    routes:
      left: {models: [left], targets: [one/small, two/small], admit: {use: fair_queue, limit: null}}
      right: {models: [right], targets: [one/small, two/small], admit: {use: fair_queue, limit: null}}
"""

QUEUES = pytest.mark.parametrize("admit", ["fair_queue, limit: null", "fixed_concurrency, limit: 1"])


def _names(exchange: Any) -> tuple[bool, bool]:
    return POSITION in exchange.answer_headers, WAIT_MS in exchange.answer_headers


@QUEUES
async def test_who_waited_is_told_its_position_and_how_long(
    open_house: Any, make_exchange: Any, hand_clock: Any, monkeypatch: pytest.MonkeyPatch, admit: str
) -> None:
    """And who met no queue is told nothing of one."""
    now_s = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s)
    async with open_house(ONE_PLACE % (HANG_ONCE, admit), clock=hand_clock) as house:
        running, waiting, next_one = make_exchange(), make_exchange(), make_exchange()
        tasks = [house.begin(running)]
        await house.until(lambda: 1 == house.route.admitter.in_flight)
        for number, exchange in enumerate((waiting, next_one), start=1):
            tasks.append(house.begin(exchange))
            await house.until(lambda number=number: number == house.route.admitter.waiting)
        now_s += 1.5
        running.hang_up()
        await asyncio.gather(*tasks)
        told = [(one.answer_headers[POSITION], one.answer_headers[WAIT_MS]) for one in (waiting, next_one)]
        assert [("1", "1500"), ("2", "1500")] == told
        assert (False, False) == _names(await house.serve(make_exchange()))


@QUEUES
async def test_who_is_refused_is_told_what_it_met_and_when_to_come_back(
    open_house: Any, make_exchange: Any, hand_clock: Any, admit: str
) -> None:
    """The wait is the expected one; ours is a 503, in whole seconds, one at least."""
    async with open_house(ONE_PLACE % (HANG_ONCE, f"{admit}, queue: 1"), clock=hand_clock) as house:
        running = house.begin(make_exchange())
        await house.until(lambda: 1 == house.route.admitter.in_flight)
        waiting = house.begin(make_exchange())
        await house.until(lambda: 1 == house.route.admitter.waiting)
        refused = await house.serve(make_exchange())
        assert (503, "2") == (refused.status, refused.answer_headers[POSITION])
        assert 0 < int(refused.answer_headers[WAIT_MS])
        assert 1 <= int(refused.answer_headers["retry-after"])
        for task in (running, waiting):
            task.cancel()
        await asyncio.gather(running, waiting, return_exceptions=True)


async def test_the_backend_is_chosen_when_the_turn_comes(open_house: Any, make_exchange: Any, hand_clock: Any) -> None:
    """Both routes' places are taken by anybody; whoever waits goes where one has come free."""
    async with open_house(TWO_ROUTES, clock=hand_clock) as house:
        first = [make_exchange(model=model) for model in ("left", "right")]
        tasks = [house.begin(exchange) for exchange in first]
        await house.until(lambda: 2 == sum(house.fleet.in_flight.values()))
        waiting = [make_exchange(model=model) for model in ("right", "left")]
        tasks += [house.begin(exchange) for exchange in waiting]
        admitters = [route.admitter for route in house.world.routes]
        await house.until(lambda: [1, 1] == [admitter.waiting for admitter in admitters])
        assert [0, 0] == [house.backend(name).closed_calls for name in ("one", "two")]
        first[1].hang_up()
        await house.until(lambda: 2 == sum(one.status == 200 for one in waiting))
        served = {entry.attempts[0].backend for entry in house.entries}
        assert 1 == len(served), "the other backend's place was never free"
        first[0].hang_up()
        await asyncio.gather(*tasks)


async def test_a_hang_up_while_waiting_is_noticed_at_once(open_house: Any, make_exchange: Any, hand_clock: Any) -> None:
    """Nothing of it is left, and nobody upstream was asked."""
    async with open_house(ONE_PLACE % (HANG_ONCE, "fair_queue, limit: null"), clock=hand_clock) as house:
        running, waiting = make_exchange(), make_exchange()
        tasks = [house.begin(running), house.begin(waiting)]
        await house.until(lambda: 1 == house.route.admitter.waiting)
        waiting.hang_up()
        await house.until(lambda: house.entries)
        state = house.route.admitter._state
        assert (0, 0, 0, {}) == (house.route.admitter.waiting, state.queued_bytes, state.queued_tokens, state.turns)
        assert (Status.CLIENT_GONE, ()) == (house.entry.outcome.status, house.entry.attempts)
        assert 1 == house.backend("only").open_calls
        running.hang_up()
        await asyncio.gather(*tasks)


@pytest.mark.parametrize("changes", ["wait_s: 29", "limit: null"], ids=["the route changes", "nothing changes"])
async def test_nobody_who_waits_is_lost_in_a_reload(
    open_house: Any, make_exchange: Any, make_world: Callable[..., Any], hand_clock: Any, changes: str
) -> None:
    """Those of the old world and of the new one wait for the same places, and all are served."""
    async with open_house(ONE_PLACE % (HANG_ONCE, "fair_queue, limit: null"), clock=hand_clock) as house:
        running = make_exchange()
        tasks = [house.begin(running), house.begin(make_exchange())]
        await house.until(lambda: 1 == house.route.admitter.waiting)
        text = ONE_PLACE % (HANG_ONCE, f"fair_queue, {changes}")
        new = make_world(text, old=house.world)
        house.pipeline.rules = Rules(new, house.pipeline.rules.door)
        tasks.append(house.begin(make_exchange()))
        waiting = [house.route.admitter, new.routes[0].admitter]
        await house.until(lambda: 2 == sum({id(one): one.waiting for one in waiting}.values()))
        assert 1 == house.fleet.in_flight["only"]
        running.hang_up()
        await asyncio.gather(*tasks)
        assert [Status.OK, Status.OK] == [entry.outcome.status for entry in house.entries[1:]]


async def test_what_waits_is_kept_in_memory_no_more_than_three_times(
    open_house: Any, make_exchange: Any, hand_clock: Any
) -> None:
    """The body's bytes, the text that was read from them, and little besides: a hundred of 100 KB."""
    size_bytes, count = 100_000, 100
    async with open_house(
        ONE_PLACE % (HANG_ONCE, "fair_queue, limit: null, wait_s: 1.0e+9"), clock=hand_clock
    ) as house:
        tasks = [house.begin(make_exchange())]
        await house.until(lambda: 1 == house.route.admitter.in_flight)
        tracemalloc.start()
        try:
            for number in range(count):
                text = f"{number:06d} " * (size_bytes // 7)
                tasks.append(house.begin(make_exchange(messages=[{"role": "user", "content": text}])))
                await house.until(lambda number=number: number + 1 == house.route.admitter.waiting)
            kept_bytes, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        queued_bytes = house.route.admitter._state.queued_bytes
        assert count * size_bytes * 0.99 < queued_bytes < count * size_bytes * 1.01
        assert kept_bytes < 3 * queued_bytes
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_queue_takes_no_more_bytes_than_it_may(open_house: Any, make_exchange: Any, hand_clock: Any) -> None:
    """Of the whole request, images and all: the next one is refused at once."""
    admit = "fair_queue, limit: null, queue_bytes: 250000"
    async with open_house(ONE_PLACE % (HANG_ONCE, admit), clock=hand_clock) as house:
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
        body = [{"role": "user", "content": [image]}]
        tasks = [house.begin(make_exchange(messages=body)) for _ in range(3)]
        await house.until(lambda: 2 == house.route.admitter.waiting)
        refused = await house.serve(make_exchange(messages=body))
        assert 503 == refused.status
        assert b"they are large" in refused.received
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("concurrency", "said"),
    [("{adaptive: {min: 0}}", "`min` must be at least 1"), ("{adaptive: {min: 9, max: 3}}", "`max` at least `min`"),
     ("{adaptive: {most: 3}}", "most"), ("{adaptive: {tolerance: 1}}", "`tolerance` more than 1")],
)  # fmt: skip
def test_wrong_bounds_of_an_adaptive_concurrency_are_named(
    make_world: Callable[..., Any], concurrency: str, said: str
) -> None:
    """As any parameter of a backend."""
    with pytest.raises(ConfigurationError, match=said):
        make_world(f"backends: {{a: {{use: fake, models: [m], concurrency: {concurrency}}}}}")
