import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from gateway.types import Context, Operation, Status

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]
SECRET = "words-of-the-exception"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("operation", [Operation.CHAT, Operation.COMPLETION])
async def test_a_request_is_served_and_recorded_once(
    open_house: OpenHouse, make_exchange: Any, clock: Any, operation: Operation, stream: bool, two_backends: Any
) -> None:
    """The answer goes out whole or streamed, and one entry tells the whole story."""
    async with open_house(two_backends(), clock=clock) as house:
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


async def test_a_client_error_is_rejected(
    open_house: OpenHouse, make_exchange: Any, clock: Any, two_backends: Any
) -> None:
    """A body that is none is answered in the client's format and recorded without a request."""
    async with open_house(two_backends(), clock=clock) as house:
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
    open_house: OpenHouse, make_exchange: Any, clock: Any, two_backends: Any
) -> None:
    """Nobody inflates or parses what a stranger sends, and the refusal is on the ledger."""
    tenants = f"tenants: {{acme: {{keys_sha256: [{'ab' * 32}]}}}}"
    async with open_house(two_backends(more=tenants), clock=clock) as house:
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


async def test_an_unknown_model_is_rejected_with_404(
    open_house: OpenHouse, make_exchange: Any, clock: Any, two_backends: Any
) -> None:
    """The request was understood, so that the entry has it, and no route."""
    async with open_house(two_backends(), clock=clock) as house:
        exchange = await house.serve(make_exchange(model="nonsense"))
        assert (404, "model_not_found") == (exchange.status, exchange.json["error"]["code"])
        assert ("nonsense", "", Status.REJECTED) == (
            house.entry.request.model,
            house.entry.route,
            house.entry.outcome.status,
        )


async def test_where_nobody_is_left_the_client_is_told_when_to_come_back(
    open_house: OpenHouse, make_exchange: Any, clock: Any, two_backends: Any, failing: Any
) -> None:
    """Both backends rest after a 429 with Retry-After; the next request finds no candidate."""
    limited = failing("status", status=429, retry_after_s=30)
    async with open_house(two_backends(limited, limited), clock=clock) as house:
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
    open_house: OpenHouse, make_exchange: Any, clock: Any, two_backends: Any, failing: Any
) -> None:
    """Upstream failed: a 502 in the client's format, both tries on the ledger."""
    async with open_house(two_backends(failing("refuse"), failing("empty")), clock=clock) as house:
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
    open_house: OpenHouse, make_exchange: Any, clock: Any, two_backends: Any, failing: Any
) -> None:
    """What was sent stays, one error event follows, nobody else is tried, and no end mark is invented."""
    async with open_house(two_backends(failing("cut", after_chunks=2)), clock=clock) as house:
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
    open_house: OpenHouse, make_exchange: Any, clock: Any, caplog: pytest.LogCaptureFixture, two_backends: Any
) -> None:
    """A 500 in the client's format that says nothing of the exception; the log names its class and place."""
    async with open_house(two_backends(), clock=clock) as house:
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
