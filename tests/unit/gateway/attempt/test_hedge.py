"""A second backend is asked as well where the first is late."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from gateway.attempt.hedge import Hedger, Race, may_hedge
from gateway.limits.borrower import Borrower
from gateway.limits.gate import Gate
from gateway.limits.lender import Grant, Need
from gateway.rules.route import Hedge
from gateway.types import Status

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]

HANG = "fail: [{kind: hang}], repeat: true"


def _policy(first: str = "", second: str = "", *, hedge: str = "{most_requests: 1, most_spend: 1}") -> str:
    price = "price: {input_usd_per_mtok: 1, output_usd_per_mtok: 1, request_usd: %s}"
    return f"""
        backends:
          first: {{use: fake, text: one two three, models: {{small: {{{price % 0}}}}}, {first}}}
          second: {{use: fake, text: four five six, models: {{small: {{{price % "0.0001"}}}}}, {second}}}
        routes:
          main:
            models: [small]
            targets: [first/small, second/small]
            cost: [money, prefill]
            worth: {{usd_per_second: 1}}
            hedge: {hedge}
    """


CHEAP = _policy(HANG)


async def _soon(condition: Callable[[], object]) -> None:
    """Returns when it holds: the race is timed by the event loop's own clock, in hundredths of a second."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("this never came true")


@pytest.mark.parametrize("stream", [True, False])
async def test_where_the_first_is_late_the_second_answers_and_both_are_billed(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool
) -> None:
    """One clean answer; the loser is closed at once, is on the ledger as outrun, and is held against nobody."""
    async with open_house(CHEAP, clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=stream, max_tokens=20))
        text = exchange.text if stream else exchange.json["choices"][0]["message"]["content"]
        assert (200, "four five six", "second") == (
            exchange.status,
            text,
            exchange.answer_headers["x-headrace-backend"],
        )
        outrun, served = house.entry.attempts
        assert ("first", "Outrun", Status.CLIENT_GONE) == (outrun.backend, outrun.error, outrun.status)
        assert ("second", Status.OK, Status.OK) == (served.backend, served.status, house.entry.outcome.status)
        assert outrun.cost_usd > 0
        assert outrun.cost_usd + served.cost_usd == house.entry.cost_usd
        assert 1 == house.backend("first").closed_calls
        assert house.is_quiet()
        assert 0 == house.fleet.standing("first", "small", house.backend("first").facts()).failure_rate(0)


class _Slow:
    """The ``Lender`` port that lets the first backend answer before it says what the second may take."""

    trouble = ""

    def __init__(self) -> None:
        self.answered = asyncio.Event()
        self.asked = asyncio.Event()

    async def exchange(self, replica: str, needs: Sequence[Need]) -> list[Grant]:
        """See ``Lender``."""
        del replica
        self.asked.set()
        await self.answered.wait()
        return [Grant(need.need, 0, 1) for need in needs]

    async def close(self) -> None:
        """See ``Lender``."""


async def test_a_first_that_answers_while_a_second_is_looked_for_is_alone(
    open_house: OpenHouse, make_exchange: Any, hand_clock: Any
) -> None:
    """Who would be outrun before it begins is not asked, is on no ledger, and holds nothing."""
    lender = _Slow()
    gate = Gate(Borrower(lender, replica="only", clock=hand_clock), clock=hand_clock)
    limits = "limits: {backends: {second: [{requests: 9, per: day}]}}"
    policy = f"{_policy('first_token_s: 60')}    {limits}\n"
    async with open_house(policy, clock=hand_clock, gate=gate) as house:
        exchange = make_exchange(stream=True)
        task = house.begin(exchange)
        await lender.asked.wait()
        hand_clock.advance(60)
        await _soon(lambda: house.backend("first").closed_calls)
        lender.answered.set()
        await task
        assert "one two three" == exchange.text
        assert ["first"] == [attempt.backend for attempt in house.entry.attempts]
        assert 0 == house.backend("second").open_calls
        assert house.is_quiet()
    assert 0 == gate.borrower.book.reservations


async def test_a_second_that_is_outrun_before_its_first_step_gives_its_place_back(
    open_house: OpenHouse, make_exchange: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the first begins to answer in the very turn of the loop that begins the second."""
    begin = Race._begin

    def begin_and_outrun(race: Race, runner: Any, side: Any) -> None:
        begin(race, runner, side)
        if len(race._tasks) == 2:
            race.claim(next(iter(race._tasks.values())))
            exchange.hang_up()

    async with open_house(_policy(HANG, HANG), clock=clock) as house:
        exchange = make_exchange(stream=True)
        monkeypatch.setattr(Race, "_begin", begin_and_outrun)
        await house.serve(exchange)
        assert (1, 0) == (house.backend("first").open_calls, house.backend("second").open_calls)
        assert Status.CLIENT_GONE is house.entry.outcome.status
        assert house.is_quiet()


async def test_who_answers_in_time_is_not_raced(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """Nobody else is asked, and nothing is spent."""
    async with open_house(_policy(), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=True))
        assert "one two three" == exchange.text
        assert 0 == house.backend("second").open_calls
        assert house.is_quiet()


async def test_a_first_that_fails_before_its_time_fails_over_as_ever(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """A race is no other kind of failover."""
    async with open_house(_policy("fail: [{kind: status, status: 500}]"), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=True))
        assert ("four five six", "2") == (exchange.text, exchange.answer_headers["x-headrace-attempts"])
        assert [Status.UPSTREAM_FAILED, Status.OK] == [attempt.status for attempt in house.entry.attempts]


async def test_a_second_that_fails_leaves_the_first_its_time(
    open_house: OpenHouse, make_exchange: Any, hand_clock: Any
) -> None:
    """It was extra; the client hears nothing of it."""
    policy = _policy("first_token_s: 60", "fail: [{kind: status, status: 500}]")
    async with open_house(policy, clock=hand_clock) as house:
        exchange = make_exchange(stream=True, max_tokens=20)
        task = house.begin(exchange)
        await _soon(lambda: house.backend("second").closed_calls)
        hand_clock.advance(60)
        await task
        assert "one two three" == exchange.text
        assert [Status.OK, Status.UPSTREAM_FAILED] == [attempt.status for attempt in house.entry.attempts]
        assert house.is_quiet()


async def test_a_hang_up_ends_both(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """No call outlives the client."""
    async with open_house(CHEAP.replace("text: four five six", f"text: four, {HANG}"), clock=clock) as house:
        exchange = make_exchange(stream=True, max_tokens=20)
        task = house.begin(exchange)
        await _soon(lambda: house.backend("second").open_calls)
        exchange.hang_up()
        await asyncio.gather(task, return_exceptions=True)
        assert [Status.CLIENT_GONE] * 2 == [attempt.status for attempt in house.entry.attempts]
        assert (1, 1) == (house.backend("first").closed_calls, house.backend("second").closed_calls)
        assert house.is_quiet()


@pytest.mark.parametrize("body", [{"store": True}, {"metadata": {"hedge": "no"}}])
async def test_a_request_that_says_no_is_never_asked_twice(
    open_house: OpenHouse, make_exchange: Any, clock: Any, body: dict[str, Any]
) -> None:
    """What is stored would be stored twice."""
    async with open_house(CHEAP, clock=clock) as house:
        exchanges = [make_exchange(stream=True, max_tokens=20, **more) for more in (body, {})]
        tasks = [house.begin(exchange) for exchange in exchanges]
        await _soon(lambda: house.backend("second").open_calls)
        for exchange in exchanges:
            exchange.hang_up()
        await asyncio.gather(*tasks, return_exceptions=True)
        asked = {bool(body.keys() & entry.request.raw.keys()): len(entry.attempts) for entry in house.entries}
        assert {True: 1, False: 2} == asked


def test_the_budget_holds_for_requests_and_for_money(make_context: Any, make_candidate: Any, make_bill: Any) -> None:
    """Of a thousand requests one in twenty is asked twice, after three to begin with; for a twentieth of the sum."""
    ctx, candidate = make_context(prompt_tokens=1000, p50=100), make_candidate()
    often = Hedger(Hedge(quantile=0.9, most_requests=0.05, most_spend=1.0))
    hedged = 0
    for _ in range(1000):
        often.earn(make_bill(1.0))
        hedged += often.spend(ctx, candidate)
    assert 52 <= hedged <= 53
    dear = Hedger(Hedge(quantile=0.9, most_requests=1.0, most_spend=0.05))
    hedged = 0
    for _ in range(1000):
        dear.earn(make_bill(0.0012))  # what the candidate charges
        hedged += dear.spend(ctx, candidate)
    assert 49 <= hedged <= 50


def test_no_price_is_no_budget_and_who_rests_is_not_asked(
    make_context: Any, make_candidate: Any, make_bill: Any
) -> None:
    """What cannot be counted cannot be kept within a share."""
    hedger = Hedger(Hedge(quantile=0.9, most_requests=1.0, most_spend=1.0))
    hedger.earn(make_bill(100.0))
    assert not hedger.spend(make_context(), make_candidate(price=None))
    assert not hedger.spend(make_context(), make_candidate(down="cooling"))
    assert hedger.spend(make_context(), make_candidate())


def test_the_wait_is_the_quantile_of_what_was_expected(
    make_context: Any, make_request: Any, make_candidate: Any
) -> None:
    """At the 90th percentile it is that of the forecast, less what has gone by; whole answers are written first."""
    hedger = Hedger(Hedge(quantile=0.9, most_requests=1.0, most_spend=1.0))
    late = make_candidate(first_token_p50_s=1.0, first_token_p90_s=3.0, seconds_per_token=0.01)
    stream = make_context(make_request("hi", stream=True), p50=100, p90=300)
    assert pytest.approx(3.0) == hedger.wait_s(stream, late, elapsed_s=0.0)
    assert pytest.approx(2.5) == hedger.wait_s(stream, late, elapsed_s=0.5)
    assert 0.0 == hedger.wait_s(stream, late, elapsed_s=9.0)
    assert pytest.approx(6.0) == hedger.wait_s(make_context(make_request("hi"), p50=100, p90=300), late, elapsed_s=0.0)


@pytest.mark.parametrize(
    ("raw", "may"),
    [
        ({}, True),
        ({"store": b"false"}, True),
        ({"metadata": b'{"team": "a"}'}, True),
        ({"store": b"true"}, False),
        ({"metadata": b'{"hedge": "no"}'}, False),
    ],
)
def test_the_body_may_say_no(make_request: Any, raw: dict[str, bytes], may: bool) -> None:
    """By what it stores, or outright."""
    assert may == may_hedge(make_request("hi", raw=raw))
