import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from gateway.types import Context, Operation, Status

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]
SECRET = "words-of-the-exception"


def _policy(first: str = "", second: str = "", route: str = "", more: str = "") -> str:
    """Two backends, the first always the cheaper, and one route."""
    price = "models: {small: {price: {input_usd_per_mtok: %d, output_usd_per_mtok: %d, request_usd: %d}}}"
    return f"""
        backends:
          first: {{use: fake, text: one two three, {price % (1, 1, 1)}, {first}}}
          second: {{use: fake, text: four five six, {price % (2, 2, 2)}, {second}}}
        routes:
          main: {{models: [small, fast], targets: [first/small, second/small], cost: [money], {route}}}
        {more}
    """


def _fail(*kinds: str, **fields: Any) -> str:
    faults = [{"kind": kind, **fields} if kind != "none" else None for kind in kinds]
    return f"fail: {msgspec.json.encode(faults).decode()}, repeat: true"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("operation", list(Operation))
async def test_a_request_is_served_and_recorded_once(
    open_house: OpenHouse, make_exchange: Any, clock: Any, operation: Operation, stream: bool
) -> None:
    """The answer goes out whole or streamed, and one entry tells the whole story."""
    async with open_house(_policy(), clock=clock) as house:
        exchange = await house.serve(make_exchange(operation=operation, stream=stream))
        entry = house.entry
        assert (200, not stream) == (exchange.status, "answer" in exchange.calls)
        assert (Status.OK, 200, "stop", "main") == (
            entry.outcome.status,
            entry.outcome.http_status,
            entry.outcome.finish_reason,
            entry.route,
        )
        assert [("first", "small", Status.OK)] == [(try_.backend, try_.model, try_.status) for try_ in entry.attempts]
        assert ["first", "second"] == [bill.candidate.backend for bill in entry.decision.order]
        assert entry.forecast.prompt_tokens > 0
        assert entry.attempts[0].usage.output_tokens == 3
        assert Decimal(1) < entry.cost_usd < Decimal("1.1")
        assert entry.arrival.id == exchange.answer_headers["x-request-id"]
        assert house.is_quiet()


# ---- how requests end -----------------------------------------------------------------------------------------------


async def test_a_client_error_is_rejected(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """A body that is none is answered in the client's format and recorded without a request."""
    async with open_house(_policy(), clock=clock) as house:
        exchange = await house.serve(make_exchange(body=b'{"model": 3}'))
        assert (400, "model", "invalid_request_error") == (
            exchange.status,
            exchange.json["error"]["param"],
            exchange.json["error"]["type"],
        )
        assert (Status.REJECTED, None, "InvalidRequest") == (
            house.entry.outcome.status,
            house.entry.request,
            house.entry.outcome.error,
        )


async def test_who_has_no_key_is_refused_before_the_body_is_read(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """Nobody inflates or parses what a stranger sends, and the refusal is on the ledger."""
    tenants = f"tenants: {{acme: {{keys_sha256: [{'ab' * 32}]}}}}"
    async with open_house(_policy(more=tenants), clock=clock) as house:
        exchange = await house.serve(make_exchange(headers=[(b"x-api-key", b"wrong")]))
        assert (401, ["answer"], "Bearer") == (
            exchange.status,
            exchange.calls,
            exchange.answer_headers["www-authenticate"],
        )
        assert (Status.REJECTED, "", ()) == (
            house.entry.outcome.status,
            house.entry.arrival.tenant,
            house.entry.attempts,
        )


async def test_an_unknown_model_is_rejected_with_404(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """The request was understood, so that the entry has it, and no route."""
    async with open_house(_policy(), clock=clock) as house:
        exchange = await house.serve(make_exchange(model="nonsense"))
        assert (404, "model_not_found") == (exchange.status, exchange.json["error"]["code"])
        assert ("nonsense", "", Status.REJECTED) == (
            house.entry.request.model,
            house.entry.route,
            house.entry.outcome.status,
        )


async def test_where_nobody_is_left_the_client_is_told_when_to_come_back(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """Both backends rest after a 429 with Retry-After; the next request finds no candidate."""
    limited = _fail("status", status=429, retry_after_s=30)
    async with open_house(_policy(limited, limited), clock=clock) as house:
        first = await house.serve(make_exchange())
        assert (429, "30") == (first.status, first.answer_headers["retry-after"])
        clock.now += 10
        second = await house.serve(make_exchange())
        assert (503, "20", "no_candidate") == (
            second.status,
            second.answer_headers["retry-after"],
            second.json["error"]["code"],
        )
        entry = house.entries[1]
        assert (Status.NO_CANDIDATE, ()) == (entry.outcome.status, entry.attempts)
        assert ["healthy", "healthy"] == [out.filter for out in entry.decision.excluded]
        assert house.is_quiet()


async def test_where_every_backend_fails_the_last_failure_is_told(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """Upstream failed: a 502 in the client's format, both tries on the ledger."""
    async with open_house(_policy(_fail("refuse"), _fail("empty")), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=True))
        assert (502, "upstream_invalid", "2") == (
            exchange.status,
            exchange.json["error"]["code"],
            exchange.answer_headers["x-headrace-attempts"],
        )
        assert Status.UPSTREAM_FAILED is house.entry.outcome.status
        assert [("first", "UpstreamUnreachable"), ("second", "UpstreamInvalid")] == [
            (try_.backend, try_.error) for try_ in house.entry.attempts
        ]
        assert house.is_quiet()


async def test_a_stream_that_breaks_after_visible_output_is_truncated(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """What was sent stays, one error event follows, nobody else is tried, and no end mark is invented."""
    async with open_house(_policy(_fail("cut", after_chunks=2)), clock=clock) as house:
        exchange = await house.serve(make_exchange(stream=True))
        assert ("one two", "upstream_truncated") == (exchange.text, exchange.events[-1]["error"]["code"])
        assert (1, 1, False) == (
            exchange.received.count(b'"error"'),
            exchange.calls.count("open"),
            b"[DONE]" in exchange.received,
        )
        assert ("close", Status.TRUNCATED) == (exchange.calls[-1], house.entry.outcome.status)
        assert [("first", Status.TRUNCATED)] == [(try_.backend, try_.status) for try_ in house.entry.attempts]
        assert 0 == house.backend("second").open_calls
        assert house.is_quiet()


@dataclass(frozen=True)
class Buggy:
    """A policy with a bug, whose exception quotes what it should not."""

    refusal: Any = field(default=None)

    def exclude(self, ctx: Context, candidate: Any) -> str | None:
        """Raises."""
        raise KeyError(SECRET, ctx, candidate)


async def test_a_bug_in_a_policy_is_an_answer_and_an_entry(
    open_house: OpenHouse, make_exchange: Any, clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A 500 in the client's format that says nothing of the exception; the log names its class and place."""
    async with open_house(_policy(), clock=clock) as house:
        object.__setattr__(house.world.routes[0], "filters", (("buggy", Buggy()),))
        with caplog.at_level(logging.ERROR):
            exchange = await house.serve(make_exchange())
        assert (500, "internal_error") == (exchange.status, exchange.json["error"]["code"])
        assert (Status.BUG, 500) == (house.entry.outcome.status, house.entry.outcome.http_status)
        assert "KeyError in " in caplog.text
        assert "test_pipeline.py" in caplog.text
        for told in (exchange.received.decode(), caplog.text, str(house.entry)):
            assert SECRET not in told
        assert house.is_quiet()


# ---- failover -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", ["refuse", "status", "empty", "garbage", "error", "cut", "reset"])
async def test_before_visible_output_another_backend_takes_over(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool, kind: str
) -> None:
    """However the first fails, the client gets one clean answer of the second, with one preamble."""
    async with open_house(_policy(_fail(kind, after_chunks=0)), clock=clock) as house:
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


async def test_every_attempt_is_paid_for(open_house: OpenHouse, make_exchange: Any, clock: Any) -> None:
    """The ledger has the price of the try that failed after it had begun, and nothing for one that was refused."""
    async with open_house(_policy(_fail("error", "status", after_chunks=0)), clock=clock) as house:
        await house.serve(make_exchange(stream=True))
        begun, served = house.entry.attempts
        assert begun.usage.estimated
        assert begun.cost_usd > 1
        assert begun.cost_usd + served.cost_usd == house.entry.cost_usd
        await house.serve(make_exchange(stream=True))
        assert Decimal(0) == house.entries[1].attempts[0].cost_usd


@pytest.mark.parametrize(("attempts", "tried"), [(1, ["first"]), (2, ["first", "second"]), (9, ["first", "second"])])
async def test_attempts_are_bounded(
    open_house: OpenHouse, make_exchange: Any, clock: Any, attempts: int, tried: list[str]
) -> None:
    """No more than the route allows, and no backend twice."""
    policy = _policy(_fail("status"), _fail("status"), f"attempts: {attempts}")
    async with open_house(policy, clock=clock) as house:
        exchange = await house.serve(make_exchange())
        assert tried == [try_.backend for try_ in house.entry.attempts]
        assert str(len(tried)) == exchange.answer_headers["x-headrace-attempts"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_that_the_backend_blames_is_not_tried_again(
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool
) -> None:
    """Its 422 goes to the client as it is, and the backend stays as well as it was."""
    async with open_house(_policy(_fail("status", status=422)), clock=clock) as house:
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
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """After three failures in a row it rests, and the next request goes to the other at once."""
    async with open_house(_policy(_fail("status")), clock=clock) as house:
        for _ in range(4):
            await house.serve(make_exchange())
        assert [2, 2, 2, 1] == [len(entry.attempts) for entry in house.entries]


# ---- hang-ups -------------------------------------------------------------------------------------------------------


async def test_a_hang_up_while_queued_gives_the_place_to_the_next(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """Who leaves the queue is recorded as gone, was never sent anywhere, and holds nothing."""
    policy = _policy(_fail("hang"), route="admit: {use: fixed_concurrency, limit: 1, queue: 1}")
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
    open_house: OpenHouse, make_exchange: Any, clock: Any, stream: bool
) -> None:
    """Nothing is sent to nobody; the attempt ends at once and is not held against the backend."""
    async with open_house(_policy(_fail("hang")), clock=clock) as house:
        exchange = make_exchange(stream=stream)
        task = house.begin(exchange)
        await house.until(lambda: house.backend("first").open_calls == 1)
        exchange.hang_up()
        await task
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
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """The tokens so far are on the ledger; no error event is written to nobody."""
    async with open_house(_policy(_fail("stall", after_chunks=2)), clock=clock) as house:
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
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """The client left before it had said what it wants."""
    async with open_house(_policy(), clock=clock) as house:
        exchange = make_exchange()
        exchange.sending.clear()
        task = house.begin(exchange)
        await house.until(lambda: exchange.task is not None)
        exchange.hang_up()
        await task
        assert (Status.CLIENT_GONE, None) == (house.entry.outcome.status, house.entry.request)


async def test_a_hang_up_while_being_told_of_an_error_is_no_bug(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """The client does not read the error event and leaves: it is gone, and the request still has one entry."""
    async with open_house(_policy(_fail("cut", after_chunks=1)), clock=clock) as house:
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
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """Whoever cancels for a reason of their own gets their cancellation, and the ledger its entry."""
    async with open_house(_policy(_fail("hang")), clock=clock) as house:
        task = house.begin(make_exchange())
        await house.until(lambda: house.backend("first").open_calls == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert Status.BUG is house.entry.outcome.status
        assert house.is_quiet()


# ---- draining -------------------------------------------------------------------------------------------------------


async def test_a_drain_without_patience_ends_streams_with_an_error_event(
    open_house: OpenHouse, make_exchange: Any, clock: Any
) -> None:
    """One error event and the end, nothing else; before the first byte it is a 503 of its own."""
    async with open_house(_policy(_fail("stall", "hang", after_chunks=1)), clock=clock) as house:
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
    open_house: OpenHouse, make_exchange: Any, hand_clock: Any
) -> None:
    """The one that runs is served to its end; the one that comes is told to come back elsewhere."""
    async with open_house(_policy("first_token_s: 5"), clock=hand_clock) as house:
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


async def test_a_drain_of_nothing_is_over_at_once(open_house: OpenHouse, clock: Any) -> None:
    """And may be asked for again."""
    async with open_house(_policy(), clock=clock) as house:
        await house.pipeline.drain(0)
        await house.pipeline.drain(0)
        assert house.pipeline.draining


async def test_settled_waits_for_those_that_run_now_only(
    open_house: OpenHouse, make_exchange: Any, hand_clock: Any
) -> None:
    """What comes later may run on: a reload closes old backends and need not wait for new requests."""
    async with open_house(_policy("first_token_s: 5"), clock=hand_clock) as house:
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
    open_house: OpenHouse, make_exchange: Any, make_world: Any, hand_clock: Any
) -> None:
    """A request is served to its end by the rules under which it came."""
    from gateway.pipeline import Rules

    async with open_house(_policy("first_token_s: 5"), clock=hand_clock) as house:
        running = make_exchange()
        task = house.begin(running)
        await hand_clock.asleep.wait()
        house.pipeline.rules = Rules(make_world("backends: {other: {use: fake}}"), house.pipeline.rules.door)
        hand_clock.advance(5)
        await task
        late = await house.serve(make_exchange())
        assert (200, 404) == (running.status, late.status)
