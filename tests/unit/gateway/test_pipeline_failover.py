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


WINDOWS = """
    backends:
      small: {{use: fake, models: {{a: {{context_tokens: {0}, price: {1}}}}}, {2}}}
      other:
        use: fake
        models: {{b: {{context_tokens: {3}, price: {{input_usd_per_mtok: 9, output_usd_per_mtok: 9}}}}}}
    routes: {{main: {{models: [small], targets: [small/a, other/b], cost: [money], attempts: 3}}}}
"""
PRICE = "{input_usd_per_mtok: 1, output_usd_per_mtok: 1}"


@pytest.mark.parametrize("kind", ["status", "error"])
async def test_a_prompt_too_long_goes_on_to_a_larger_window(
    open_house: OpenHouse, make_exchange: Any, clock: Any, failing: Any, kind: str
) -> None:
    """Its code says so; the backend that refused is as well as before, and knows its window better."""
    too_long = failing(kind, status=400, code="context_length_exceeded", after_chunks=0)
    async with open_house(WINDOWS.format(4096, PRICE, too_long, 8192), clock=clock) as house:
        exchange = await house.serve(make_exchange())
        assert (200, "other") == (exchange.status, exchange.answer_headers["x-headrace-backend"])
        await house.serve(make_exchange())
        (small,) = [bill.candidate for bill in house.entries[1].decision.order if bill.candidate.backend == "small"]
        assert (0.0, None, True) == (small.failure_rate, small.down, small.too_long_tokens is not None)


@pytest.mark.parametrize("window", [4096, 2048])
async def test_a_prompt_too_long_goes_to_no_window_that_is_no_larger(
    open_house: OpenHouse, make_exchange: Any, clock: Any, failing: Any, window: int
) -> None:
    """The client gets the refusal in its own format, and nobody was asked in vain."""
    too_long = failing("status", status=400, code="context_length_exceeded")
    async with open_house(WINDOWS.format(4096, PRICE, too_long, window), clock=clock) as house:
        exchange = await house.serve(make_exchange())
        assert (400, "context_length_exceeded") == (exchange.status, exchange.json["error"]["code"])
        assert (1, 0) == (house.backend("small").open_calls, house.backend("other").open_calls)


async def test_an_account_that_is_used_up_is_asked_once_and_rests_long(
    open_house: OpenHouse, make_exchange: Any, clock: Any, failing: Any
) -> None:
    """Neither again nor for another of its models: the request skips to the next place, and the rest is 15 minutes."""
    policy = f"""
        backends:
          spent: {{use: fake, models: {{a: {{price: {PRICE}}}, b: {{price: {PRICE}}}}}, {
        failing("status", status=429, code="insufficient_quota")
    }}}
          other: {{use: fake, models: {{c: {{price: {{input_usd_per_mtok: 9, output_usd_per_mtok: 9}}}}}}}}
        routes: {{main: {{models: [small], targets: [spent/a, spent/b, other/c], cost: [money], attempts: 2}}}}
    """
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange())
        assert (200, "other", 1) == (
            exchange.status,
            exchange.answer_headers["x-headrace-backend"],
            house.backend("spent").open_calls,
        )
        await house.serve(make_exchange())
        waits = {out.candidate.model: out.candidate.retry_in_s for out in house.entries[1].decision.excluded}
        assert pytest.approx(900, abs=1) == next(iter(waits.values()))
