import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from gateway.facts import BackendFacts
from gateway.fleet.cooling import Cooling
from gateway.ports import Backend, Sink, Surroundings
from gateway.price import Usage
from gateway.types import Call, Finish, Status

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]
PRICE = "{input_usd_per_mtok: 1000000, output_usd_per_mtok: 1000000, request_usd: 7}"


def _policy(first: str = "", *, timeouts: str = "", price: str | None = PRICE, more: str = "") -> str:
    """One backend and, in ``more``, perhaps another; one token costs one US dollar and a request seven more."""
    facts = f"{{price: {price}}}" if price else "{}"
    return f"""
        backends:
          first: {{use: fake, text: one two three, models: {{small: {facts}}}, {first}}}
          {more}
        routes:
          main:
            models: [small]
            targets: [first/small{", second/small" if more else ""}]
            cost: [money]
            timeouts: {{{timeouts}}}
    """


# ---- time -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "timeouts", "stream", "words"),
    [
        ("hang", "first_token_s: 0.01", True, "first sent no token within 0.01 s"),
        ("{kind: stall, after_chunks: 0}", "first_token_s: 0.01", True, "first sent no token within 0.01 s"),
        ("{kind: stall, after_chunks: 1}", "idle_s: 0.01", True, "first fell silent for 0.01 s"),
        ("{kind: stall, after_chunks: 1}", "total_s: 0.01", True, "first did not finish within 0.01 s"),
        ("hang", "total_s: 0.01", True, "first did not finish within 0.01 s"),
        ("hang", "total_s: 0.01", False, "first did not finish within 0.01 s"),
        ("stall", "first_token_s: 0.001, idle_s: 0.001, total_s: 0.01", False, "first did not finish within 0.01 s"),
    ],
)
async def test_silence_has_its_limits(
    open_house: OpenHouse, make_exchange: Any, clock: Any, fault: str, timeouts: str, stream: bool, words: str
) -> None:
    """To the first token, between two pieces and as a whole; a whole answer has the last of them only."""
    fault = fault if fault.startswith("{") else f"{{kind: {fault}}}"
    async with open_house(_policy(f"fail: [{fault}]", timeouts=timeouts), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=stream))
        (attempt,) = house.entry.attempts
        answered = attempt.first_token_s is not None and "finish" in words
        assert ("UpstreamUnfinished" if answered else "UpstreamTimeout", words) == (attempt.error, attempt.detail)
        shown = exchange.status == 200
        assert (Status.TRUNCATED if shown else Status.UPSTREAM_FAILED) is house.entry.outcome.status
        assert 1 == house.backend("first").closed_calls
        assert b"upstream_timeout" in exchange.received
        assert house.is_quiet()


@pytest.mark.parametrize(
    ("timeouts", "after_chunks", "blamed"),
    [("total_s: 0.01", 1, False), ("total_s: 0.01", 0, True), ("idle_s: 0.01", 1, True)],
)
async def test_a_long_answer_is_no_failure_of_the_backend(
    open_house: OpenHouse, make_exchange: Any, clock: Any, timeouts: str, after_chunks: int, blamed: bool
) -> None:
    """When the deadline comes while it was answering, its record stays clean; silence is held against it."""
    fault = f"fail: [{{kind: stall, after_chunks: {after_chunks}}}]"
    async with open_house(_policy(fault, timeouts=timeouts), clock=clock) as house:
        await house.serve(make_exchange(stream=True))
        standing = house.fleet.standing("first", "small", house.backend("first").facts())
        assert blamed is (standing.failure_rate(clock.now_s()) > 0)


async def test_a_silent_backend_is_replaced_before_the_first_token(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """The limit of the first token leaves time for another try."""
    more = "second: {use: fake, text: four five, models: [small]}"
    policy = _policy("fail: [{kind: hang}]", timeouts="first_token_s: 0.01", more=more)
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=True))
        tried = [attempt.backend for attempt in house.entry.attempts]
        assert {"first": ["first", "second"], "second": ["second"]}[tried[0]] == tried
        assert "four five" == exchange.text


async def test_who_comes_after_the_deadline_is_not_blamed_for_it(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """One backend used up all the time: nobody else is begun only to be counted as too slow."""
    hang = "fail: [{kind: hang}], repeat: true"
    more = f"second: {{use: fake, models: [small], {hang}}}"
    async with open_house(_policy(hang, timeouts="total_s: 0.01", more=more), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=True))
        assert (504, 1) == (exchange.status, len(house.entry.attempts))
        assert 1 == house.backend("first").open_calls + house.backend("second").open_calls


async def test_a_whole_answer_that_does_not_come_leaves_time_for_the_next_backend(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """Nothing of it can be seen before its end, so each attempt has its share of the time that is left."""
    more = "second: {use: fake, models: [small], text: one two three, fail: [{kind: hang}, null]}"
    async with open_house(_policy("fail: [{kind: hang}]", timeouts="total_s: 0.1", more=more), clock=clock) as house:
        both_hang, first_is_well = await house.serve(make_exchange()), await house.serve(make_exchange())
        assert (504, 200) == (both_hang.status, first_is_well.status)
        assert [2, 1] == [len(entry.attempts) for entry in house.keeper.entries]


async def test_a_slow_clients_pace_is_not_the_upstreams_silence(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """A client that reads late, long after the idle limit, still gets the whole answer."""
    async with open_house(_policy(timeouts="idle_s: 0.01"), clock=clock) as house:
        exchange = make_exchange(stream=True)
        exchange.stops_at = b"two"
        task = house.begin(exchange)
        await exchange.blocked.wait()
        exchange.stops_at = None
        late = asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, late.set)
        await late.wait()
        exchange.reading.set()
        await task
        assert ("one two three", Status.OK) == (exchange.text, house.entry.outcome.status)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_never_reads_is_taken_for_gone(
    open_house: OpenHouse, make_exchange: Any, clock: Any, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """When all time is over it is the client that did not take its answer, and the backend is as well as before."""
    monkeypatch.setattr("gateway.attempt.last_words._LAST_WORDS_S", 0.01)
    async with open_house(_policy(timeouts="total_s: 0.01"), clock=clock) as house:
        exchange = make_exchange(stream=stream)
        exchange.reading.clear()
        await house.serve(exchange)
        (attempt,) = house.entry.attempts
        assert (Status.CLIENT_GONE, Status.CLIENT_GONE, "ClientGone") == (
            house.entry.outcome.status,
            attempt.status,
            attempt.error,
        )
        assert 0.0 == house.fleet.standing("first", "small", house.backend("first").facts()).failure_rate(clock.now_s())
        assert house.is_quiet()


async def test_a_client_that_leaves_its_answer_unread_gives_its_place_back(
    open_house: OpenHouse, make_exchange: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long before all time is over: who waits for the place gets it."""
    monkeypatch.setattr("gateway.attempt.last_words._LAST_WORDS_S", 0.01)
    policy = _policy("concurrency: 1", timeouts="client_s: 0.05")
    policy = policy.replace("cost: [money]", "cost: [money]\n            admit: {use: fair_queue, limit: null}")
    async with open_house(policy, clock=clock) as house:
        exchange = make_exchange(stream=True)
        exchange.stops_at = b"two"
        unread = house.begin(exchange)
        await exchange.blocked.wait()
        patient = await house.serve(make_exchange(stream=True))
        await unread
        first, second = sorted(house.entries, key=lambda entry: entry.outcome.status is Status.OK)
        assert ("one two three", Status.OK) == (patient.text, second.outcome.status)
        (attempt,) = first.attempts
        assert (Status.CLIENT_GONE, "the client left its answer unread for 0.05 s") == (attempt.status, attempt.detail)
        assert house.is_quiet()


async def test_an_answer_that_was_whole_needs_no_farewell(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """All was said and only the connection lingers: after the idle limit the answer is a good one."""
    policy = _policy("fail: [{kind: stall, after_chunks: 9}]", timeouts="idle_s: 0.01")
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=True))
        assert ("one two three", "[DONE]", "close") == (exchange.text, exchange.events[-1], exchange.calls[-1])
        assert (Status.OK, "stop") == (house.entry.outcome.status, house.entry.outcome.finish_reason)
        assert [Status.OK] == [attempt.status for attempt in house.entry.attempts]


async def test_times_are_those_of_the_clock(open_house: OpenHouse, make_exchange: Any, hand_clock: Any) -> None:
    """Start, first token and end of an attempt, and the speeds that the fleet learns from them."""
    async with open_house(_policy("first_token_s: 2, seconds_per_token: 1, tokens: 9"), clock=hand_clock) as house:
        task = house.begin(make_exchange(stream=True))
        while not task.done():
            await asyncio.wait([task, asyncio.create_task(hand_clock.asleep.wait())], return_when="FIRST_COMPLETED")
            hand_clock.asleep.clear()
            hand_clock.advance(2 if len(hand_clock.slept_s) == 1 else 1)
        (attempt,) = house.entry.attempts
        assert 2.0 == attempt.first_token_s - attempt.started_s
        assert attempt.ended_s - attempt.first_token_s >= 8.0
        standing = house.fleet.standing("first", "small", house.backend("first").facts())
        assert standing.work.decoding.seconds_per_token(1, 0) > 0.2


class _BrokenStore:
    """The ``Shared`` port over a network that lets nothing through."""

    def put(self, key: str, value: str, ttl_s: float) -> None:
        raise ConnectionError(key, value, ttl_s)

    def get(self, key: str) -> tuple[str, float] | None:
        del key


async def test_an_attempt_is_on_the_ledger_even_if_its_landing_fails(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """What it cost and how it ended is written first; then the fleet learns of it, in whatever state that is."""
    policy = _policy("fail: [{kind: status, status: 429}]")
    async with open_house(policy, clock=clock) as house:
        house.fleet.cooldowns = Cooling(_BrokenStore())
        await house.serve(make_exchange())
        assert Status.BUG is house.entry.outcome.status
        assert ["UpstreamRateLimited"] == [attempt.error for attempt in house.entry.attempts]
        assert house.is_quiet()


# ---- money ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
async def test_usage_is_what_the_upstream_says(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool
) -> None:
    """Its counts, at its price, and the price of the request."""
    async with open_house(_policy("usage: given"), clock=clock) as house:
        await house.serve(make_exchange(stream=stream))
        (attempt,) = house.entry.attempts
        assert Usage(prompt_tokens=4, output_tokens=3) == attempt.usage
        assert Decimal(4 + 3 + 7) == attempt.cost_usd


@pytest.mark.parametrize("stream", [True, False])
async def test_usage_that_is_missing_is_estimated_and_marked(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool
) -> None:
    """The forecast's prompt, and a quarter of the bytes that passed, streamed or whole."""
    async with open_house(_policy("usage: missing"), clock=clock) as house:
        await house.serve(make_exchange(stream=stream))
        (attempt,) = house.entry.attempts
        prompt_tokens, output_tokens = house.entry.forecast.prompt_tokens, -(-len("one two three") // 4)
        assert Usage(prompt_tokens=prompt_tokens, output_tokens=output_tokens, estimated=True) == attempt.usage
        assert prompt_tokens + output_tokens + 7 == attempt.cost_usd


async def test_an_unknown_price_is_not_free(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """Where no price is known there is no cost, neither for the attempt nor for the request."""
    async with open_house(_policy(price=None), clock=clock) as house:
        exchange = await house.serve(make_exchange())
        assert (None, None) == (house.entry.attempts[0].cost_usd, house.entry.cost_usd)
        assert "x-headrace-cost-usd" not in exchange.answer_headers


@pytest.mark.parametrize("price", [PRICE, None])
@pytest.mark.parametrize("kind", ["refuse", "status"])
async def test_what_was_refused_costs_nothing(
    open_house: OpenHouse, make_exchange: Any, clock: Any, kind: str, price: str | None
) -> None:
    """Before anything was sent nothing is owed, whatever the price, known or not."""
    async with open_house(_policy(f"fail: [{{kind: {kind}}}]", price=price), clock=clock) as house:
        await house.serve(make_exchange())
        (attempt,) = house.entry.attempts
        assert (Usage(), Decimal(0)) == (attempt.usage, attempt.cost_usd)


async def test_a_timeout_is_paid_for(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """The prompt was sent and may have been read: its price is booked, as an estimate."""
    async with open_house(_policy("fail: [{kind: hang}]", timeouts="total_s: 0.01"), clock=clock) as house:
        await house.serve(make_exchange())
        (attempt,) = house.entry.attempts
        assert Usage(prompt_tokens=house.entry.forecast.prompt_tokens, estimated=True) == attempt.usage
        assert attempt.usage.prompt_tokens + 7 == attempt.cost_usd


@dataclass
class Scripted:
    """A backend that answers with given bytes, and says of itself what another one says."""

    other: Backend
    body: bytes

    async def start(self, name: str, world: Surroundings) -> None:
        """See ``Backend``."""

    async def send(self, call: Call, sink: Sink) -> Finish:
        """See ``Backend``."""
        sink.begin(streamed=call.request.stream)
        await sink.push(self.body)
        return await sink.end()

    def facts(self) -> BackendFacts:
        """See ``Backend``."""
        return self.other.facts()

    async def close(self) -> None:
        """See ``Backend``."""


async def test_an_upstream_that_counts_nothing_is_believed_and_paid(
    open_house: OpenHouse, make_exchange: Any, make_world: Any, clock: Any
) -> None:
    """An answer was given: the price of the request is owed even where no token was counted."""
    body = b'{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":0}}'
    scripted = Scripted(make_world(_policy()).backends["first"], body)
    async with open_house(_policy(), clock=clock, replaced={"first": scripted}) as house:
        await house.serve(make_exchange())
        assert (Usage(), Decimal(7)) == (house.entry.attempts[0].usage, house.entry.attempts[0].cost_usd)


class Broken(Scripted):
    """A backend with a bug."""

    async def send(self, call: Call, sink: Sink) -> Finish:
        """Raises, quoting what it should not."""
        raise LookupError("words-of-the-exception", call, sink)


async def test_a_bug_in_a_backend_is_a_bug_and_not_its_failure(
    open_house: OpenHouse, make_exchange: Any, make_world: Any, clock: Any
) -> None:
    """The entry has the class and no words, since they may quote anything."""
    broken = Broken(make_world(_policy()).backends["first"], b"")
    async with open_house(_policy(), clock=clock, replaced={"first": broken}) as house:
        exchange = await house.serve(make_exchange())
        (attempt,) = house.entry.attempts
        assert (500, Status.BUG, "LookupError", "") == (
            exchange.status,
            attempt.status,
            attempt.error,
            attempt.detail,
        )
        assert 0.0 == house.fleet.standing("first", "small", broken.facts()).failure_rate(clock.now_s())
        assert house.is_quiet()
