"""Requests inside their limits, through the whole pipeline."""

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.limits.borrower import Borrower
from gateway.limits.gate import Gate
from gateway.limits.limit import Measure
from gateway.stores.sqlite_lender import SqliteLender
from gateway.types import Status

KEY = b"sk-acme"
HEADERS = ((b"x-api-key", KEY),)


def _tenant(limits: str, more: str = "") -> str:
    return f"""
            tenants: {{acme: {{keys_sha256: [{hashlib.sha256(KEY).hexdigest()}], limits: [{limits}]}}}}
            {more}
    """


@pytest.fixture
def gate(tmp_path: Path, hand_clock: Any) -> Gate:
    """Limits in a file of this test."""
    lender = SqliteLender(tmp_path / "limits.sqlite3", clock=hand_clock)
    return Gate(Borrower(lender, replica="only", clock=hand_clock), clock=hand_clock)


@pytest.fixture
def house(gate: Gate, hand_clock: Any, open_house: Any, two_backends: Callable[..., str]) -> Any:
    """Opens a pipeline with limits."""
    return lambda more, **fields: open_house(two_backends(more=more, **fields), clock=hand_clock, gate=gate)


def _held(gate: Gate, measure: Measure) -> list[int]:
    return [one.held for one in gate.borrower.book.allowances() if one.limit.measure is measure]


def _spent(gate: Gate, measure: Measure) -> list[int]:
    return [one.spent for one in gate.borrower.book.allowances() if one.limit.measure is measure]


async def test_what_was_taken_is_settled_at_what_the_answer_used(house: Any, gate: Gate, make_exchange: Any) -> None:
    """The forecast is reserved, the usage is spent, and the headers tell how it stands."""
    async with house(_tenant("{requests: 3, per: day}, {tokens: 5000, per: day}, {usd: 100, per: day}")) as one:
        exchange = make_exchange(headers=HEADERS)
        await one.serve(exchange)
    entry = one.entry
    usage = entry.attempts[0].usage
    assert Status.OK is entry.outcome.status
    assert [usage.prompt_tokens + usage.output_tokens] == _spent(gate, Measure.TOKENS)
    assert [int(entry.cost_usd * 10**9)] == _spent(gate, Measure.USD)
    assert ("3", "2") == tuple(
        exchange.answer_headers[f"x-ratelimit-{word}-requests"] for word in ("limit", "remaining")
    )
    assert [0] == _held(gate, Measure.TOKENS)


async def test_beyond_its_own_limit_a_tenant_gets_429_and_when_to_come_back(house: Any, make_exchange: Any) -> None:
    """Until the window ends; nobody upstream is asked."""
    async with house(_tenant("{requests: 1, per: minute}")) as one:
        await one.serve(make_exchange(headers=HEADERS))
        refused = make_exchange(headers=HEADERS)
        await one.serve(refused)
        assert 429 == refused.status
        assert 1 <= int(refused.answer_headers["retry-after"]) <= 60
        assert "0" == refused.answer_headers["x-ratelimit-remaining-requests"]
        assert b"rate_limit_exceeded" in refused.received
    assert () == one.entries[1].attempts


async def test_a_limit_of_the_model_is_ours(house: Any, make_exchange: Any) -> None:
    """503: who met it did nothing wrong."""
    async with house("limits: {models: {small: [{requests: 0, per: minute}]}}") as one:
        refused = make_exchange()
        await one.serve(refused)
    assert 503 == refused.status


async def test_a_backend_that_has_reached_its_limit_is_passed_over(house: Any, make_exchange: Any) -> None:
    """The next one serves."""
    async with house("limits: {backends: {first: [{requests: 1, per: day}]}}") as one:
        for _ in range(2):
            await one.serve(make_exchange())
    assert ["first", "second"] == [entry.attempts[-1].backend for entry in one.entries]


async def test_where_every_backend_is_at_its_limit_the_client_may_come_back(house: Any, make_exchange: Any) -> None:
    """503 with the time at which the first of them is open again."""
    none = "limits: {backends: {first: [{requests: 0, per: day}], second: [{requests: 0, per: day}]}}"
    async with house(none) as one:
        refused = make_exchange()
        await one.serve(refused)
    assert 503 == refused.status
    assert () == one.entries[0].attempts


async def test_a_client_that_leaves_gives_its_place_back(house: Any, gate: Gate, make_exchange: Any) -> None:
    """A hundred streams begun and dropped, one at a time allowed: the next is let in each time."""
    async with house(_tenant("{concurrent: 1}"), first="fail: [{kind: hang}], repeat: true") as one:
        for _ in range(100):
            exchange = make_exchange(headers=HEADERS, stream=True)
            task = one.begin(exchange)
            async with asyncio.timeout(5):
                while _held(gate, Measure.CONCURRENT) != [1]:  # noqa: ASYNC110  # a thread of SQLite's answers
                    await asyncio.sleep(0.001)
            exchange.hang_up()
            await task
            assert [0] == _held(gate, Measure.CONCURRENT)
    assert {Status.CLIENT_GONE} == {entry.outcome.status for entry in one.entries}
    assert 0 == gate.borrower.book.reservations


async def test_an_attempt_that_failed_costs_what_it_used(house: Any, gate: Gate, make_exchange: Any) -> None:
    """A refusal upstream is free; the answer that came from the next one is paid."""
    broken = "fail: [{kind: status, status: 500}], repeat: true"
    async with house(_tenant("{usd: 100, per: day}"), first=broken) as one:
        await one.serve(make_exchange(headers=HEADERS))
    entry = one.entry
    assert ["first", "second"] == [attempt.backend for attempt in entry.attempts]
    assert [int(entry.attempts[1].cost_usd * 10**9)] == _spent(gate, Measure.USD)


async def test_no_header_of_a_client_changes_whose_limits_hold(house: Any, gate: Gate, make_exchange: Any) -> None:
    """Names that a client sends are labels, never an identity."""
    async with house(_tenant("{requests: 1, per: day}")) as one:
        claims = (*HEADERS, (b"x-tenant", b"other"), (b"x-headrace-tenant", b"other"), (b"openai-organization", b"o"))
        statuses = []
        for _ in range(2):
            exchange = make_exchange(headers=claims, user="somebody-else")
            await one.serve(exchange)
            statuses.append(exchange.status)
    assert [200, 429] == statuses
    assert ["tenant:acme"] == [one.limit.scope for one in gate.borrower.book.allowances()]


UNPRICED = """
            backends: {{free: {{use: fake, models: [small]}}, paid: {{use: fake, models: {{small: {{price: {0}}}}}}}}}
            routes: {{main: {{models: [small], targets: {1}, cost: [money]}}}}
            {2}
"""
PRICE = "{input_usd_per_mtok: 90, output_usd_per_mtok: 90}"


async def _served(
    open_house: Any, clock: Any, gate: Gate, make_exchange: Any, targets: str, limits: str
) -> tuple[Any, Any]:
    """One request under a policy with a backend of unknown price; the exchange, and its entry."""
    async with open_house(UNPRICED.format(PRICE, targets, limits), clock=clock, gate=gate) as house:
        exchange = await house.serve(make_exchange(headers=HEADERS))
    return exchange, house.entry


async def test_a_limit_in_dollars_keeps_requests_from_unknown_prices(
    open_house: Any, clock: Any, gate: Gate, make_exchange: Any
) -> None:
    """The dear backend whose price is known serves; why the other one does not is on the ledger."""
    limits = _tenant("{usd: 100, per: day}")
    exchange, entry = await _served(open_house, clock, gate, make_exchange, "[free/small, paid/small]", limits)
    assert (200, "paid") == (exchange.status, exchange.answer_headers["x-headrace-backend"])
    assert [("free", "limits")] == [(out.candidate.backend, out.filter) for out in entry.decision.excluded]


async def test_where_no_price_is_known_at_all_a_limit_in_dollars_refuses(
    open_house: Any, clock: Any, gate: Gate, make_exchange: Any
) -> None:
    """429 with the reason, and without a time to come back: waiting does not help."""
    exchange, entry = await _served(
        open_house, clock, gate, make_exchange, "[free/small]", _tenant("{usd: 100, per: day}")
    )
    assert (429, ()) == (exchange.status, entry.attempts)
    assert "no price is known" in exchange.json["error"]["message"]
    assert "retry-after" not in exchange.answer_headers


async def test_a_limit_may_allow_what_it_cannot_count(
    open_house: Any, clock: Any, gate: Gate, make_exchange: Any
) -> None:
    """Where the policy says so, requests without a price are served and count nothing."""
    limits = _tenant("{usd: 100, per: day, unpriced: allow}")
    exchange, _ = await _served(open_house, clock, gate, make_exchange, "[free/small]", limits)
    assert 200 == exchange.status
    assert [0] == _spent(gate, Measure.USD)


@pytest.mark.parametrize(("unpriced", "backend"), [("", "paid"), (", unpriced: allow", "free")])
async def test_a_backends_own_limit_in_dollars_passes_it_over(
    open_house: Any, clock: Any, gate: Gate, make_exchange: Any, unpriced: str, backend: str
) -> None:
    """The next candidate serves, as for any limit of a backend that has no room."""
    limits = f"limits: {{backends: {{free: [{{usd: 5, per: day{unpriced}}}]}}}}"
    exchange, _ = await _served(open_house, clock, gate, make_exchange, "[free/small, paid/small]", limits)
    assert (200, backend) == (exchange.status, exchange.answer_headers["x-headrace-backend"])


async def test_an_answer_out_of_a_cache_is_a_request_and_no_tokens(house: Any, gate: Gate, make_exchange: Any) -> None:
    """Who asks a thousand times the same has asked a thousand times; nothing was computed for it."""
    async with house(_tenant("{requests: 2, per: day}, {tokens: 5000, per: day}"), route="cache: {ttl_s: 60}") as one:
        await one.serve(make_exchange(headers=HEADERS, temperature=0))
        spent = _spent(gate, Measure.TOKENS)
        again = await one.serve(make_exchange(headers=HEADERS, temperature=0))
        refused = await one.serve(make_exchange(headers=HEADERS, temperature=0))
    assert ("hit", spent) == (again.answer_headers["x-headrace-cache"], _spent(gate, Measure.TOKENS))
    assert [2] == _spent(gate, Measure.REQUESTS)
    assert 429 == refused.status
