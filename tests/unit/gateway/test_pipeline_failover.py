from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Any

import pytest

from gateway.types import Status

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", ["refuse", "status", "empty", "garbage", "error", "cut", "reset"])
async def test_before_visible_output_another_backend_takes_over(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool, kind: str, two_backends: Any, failing: Any
) -> None:
    """However the first fails, the client gets one clean answer of the second, with one preamble."""
    async with open_house(two_backends(failing(kind, after_chunks=0)), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=stream))
        text = exchange.text if stream else exchange.json["choices"][0]["message"]["content"]
        assert (200, "four five six", "second", "2") == (
            exchange.status,
            text,
            exchange.answer_headers["x-headrace-backend"],
            exchange.answer_headers["x-headrace-attempts"],
        )
        assert (1 if stream else 0) == exchange.received.count(b'"role":"assistant","content":""')
        assert b"one" not in exchange.received
        assert b'"error"' not in exchange.received
        failed, served = house.entry.attempts
        assert ("first", "second", Status.OK) == (failed.backend, served.backend, house.entry.outcome.status)
        assert failed.status is not Status.OK
        assert failed.span_id != served.span_id
        assert house.is_quiet()


async def test_every_attempt_is_paid_for(
    open_house: OpenHouse, make_exchange: Any, clock: Any, two_backends: Any, failing: Any
) -> None:
    """The ledger has the price of the try that failed after it had begun, and nothing for one that was refused."""
    async with open_house(two_backends(failing("error", "status", after_chunks=0)), clock=clock) as house:
        await house.serve(make_exchange(stream=True))
        begun, served = house.entry.attempts
        assert begun.usage.estimated
        assert begun.cost_usd > 1
        assert begun.cost_usd + served.cost_usd == house.entry.cost_usd
        await house.serve(make_exchange(stream=True))
        assert Decimal(0) == house.entries[1].attempts[0].cost_usd


@pytest.mark.parametrize(("attempts", "tried"), [(1, ["first"]), (2, ["first", "second"]), (9, ["first", "second"])])
async def test_attempts_are_bounded(
    open_house: OpenHouse,
    make_exchange: Any,
    clock: Any,
    attempts: int,
    tried: list[str],
    two_backends: Any,
    failing: Any,
) -> None:
    """No more than the route allows, and no backend twice."""
    policy = two_backends(failing("status"), failing("status"), f"attempts: {attempts}")
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange())
        assert tried == [try_.backend for try_ in house.entry.attempts]
        assert str(len(tried)) == exchange.answer_headers["x-headrace-attempts"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_that_the_backend_blames_is_not_tried_again(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool, two_backends: Any, failing: Any
) -> None:
    """Its 422 goes to the client as it is, and the backend stays as well as it was."""
    async with open_house(two_backends(failing("status", status=422)), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=stream))
        assert (422, 0, 422) == (
            exchange.status,
            house.backend("second").open_calls,
            house.entry.attempts[0].upstream_status,
        )
        again = await house.serve(make_exchange(stream=stream))
        assert 422 == again.status
        assert 0.0 == house.entries[1].decision.order[0].candidate.failure_rate


async def test_a_backend_that_has_failed_is_tried_last_or_not_at_all(
    open_house: OpenHouse, make_exchange: Any, clock: Any, two_backends: Any, failing: Any
) -> None:
    """After three failures in a row it rests, and the next request goes to the other at once."""
    async with open_house(two_backends(failing("status")), clock=clock) as house:
        for _ in range(4):
            await house.serve(make_exchange())
        assert [2, 2, 2, 1] == [len(entry.attempts) for entry in house.entries]
