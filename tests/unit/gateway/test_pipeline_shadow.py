import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gateway.judgement import Occasion
from gateway.limits.borrower import Borrower
from gateway.limits.gate import Gate
from gateway.rules.judging import drawn
from gateway.stores.sqlite_lender import SqliteLender
from gateway.types import Operation, Status

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]

PRICE = "models: {small: {price: {input_usd_per_mtok: 1, output_usd_per_mtok: 1, request_usd: 0.5}}}"


def _policy(shadow: str = "", other: str = PRICE, *, served: str = "", route: str = "") -> str:
    return f"""
        backends:
          seen: {{use: fake, text: one two three, {served}}}
          unseen: {{use: fake, text: '[4]', {other}}}
        routes:
          main:
            models: ["*"]
            targets: [seen]
            shadow: {{to: unseen, share: 1, usd: 10, judge: [valid_json], most_load: 1000, {shadow}}}
            {route}
    """


async def _until(condition: Callable[[], object]) -> None:
    """Budgets are kept on disk, which takes its time."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # a thread brings it about
            await asyncio.sleep(0)


@pytest.fixture
async def gate(tmp_path: Path, clock: Any) -> AsyncIterator[Gate]:
    """The limits of one process, in which budgets are kept."""
    lender = SqliteLender(tmp_path / "limits.sqlite3", clock=clock)
    borrower = Borrower(lender, replica="r", clock=clock)
    yield Gate(borrower, clock=clock)
    await borrower.close()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_copy_is_judged_and_shown_to_nobody(
    open_house: OpenHouse, make_exchange: Any, clock: Any, gate: Gate, stream: bool
) -> None:
    """The client's answer is what it was without; the copy's price is on its own record and in no request's cost."""
    async with open_house(_policy(), clock=clock, gate=gate) as house:
        exchange = await house.serve(make_exchange(stream=stream))
        await house.judging_is_over()
        assert (200, "seen") == (exchange.status, exchange.answer_headers["x-headrace-backend"])
        assert b"[4]" not in exchange.received
        assert ["seen"] == [attempt.backend for attempt in house.entry.attempts]
        (judged,) = house.judged
        assert (Occasion.SHADOW, 0, "unseen", True, house.entry.arrival.id) == (
            judged.occasion,
            judged.attempt,
            judged.backend,
            judged.judgement.success,
            judged.request_id,
        )
        assert Decimal("0.5") < judged.cost_usd < Decimal("0.6")
        assert house.is_quiet()


async def test_the_client_does_not_wait_for_the_copy(
    open_house: OpenHouse, make_exchange: Any, clock: Any, gate: Gate, failing: Any
) -> None:
    """Its request is over and on the ledger before the copy is; the end of the house ends the copy, and records it."""
    other = f"{PRICE}, {failing('hang')}"
    async with open_house(_policy(other=other), clock=clock, gate=gate) as house:
        await house.serve(make_exchange())
        assert 1 == len(house.entries)
        await _until(lambda: house.backend("unseen").open_calls == 1)
        assert 1 == house.afterwards.shadows.running
    assert (0, 1) == (house.afterwards.shadows.running, house.backend("unseen").closed_calls)
    (judged,) = house.judged
    assert (None, "ended by the shutdown") == (judged.judgement.success, judged.judgement.reason)
    assert house.is_quiet()


async def test_a_copy_that_fails_is_a_failure_of_who_got_it(
    open_house: OpenHouse, make_exchange: Any, clock: Any, gate: Gate, failing: Any
) -> None:
    """It is tried once."""
    async with open_house(_policy(other=f"{PRICE}, {failing('status')}"), clock=clock, gate=gate) as house:
        exchange = await house.serve(make_exchange())
        await house.judging_is_over()
        assert 200 == exchange.status
        assert (False, "UpstreamFailed", 1) == (
            house.judged[0].judgement.success,
            house.judged[0].judgement.reason,
            house.backend("unseen").open_calls,
        )


async def test_the_budget_ends_the_copies(open_house: OpenHouse, make_exchange: Any, clock: Any, gate: Gate) -> None:
    """What may be spent is reserved before, and settled after: no copy is sent that could go beyond it."""
    async with open_house(_policy("usd: 1.2").replace("usd: 10, ", ""), clock=clock, gate=gate) as house:
        for _ in range(4):
            await house.serve(make_exchange())
            await house.judging_is_over()
        assert (2, {"budget": 2}) == (house.backend("unseen").open_calls, dict(house.afterwards.docket.skipped))
        clock.now += 86_400
        await house.serve(make_exchange())
        await house.judging_is_over()
        assert 3 == house.backend("unseen").open_calls


async def test_a_price_that_nobody_knows_is_no_budget(
    open_house: OpenHouse, make_exchange: Any, clock: Any, gate: Gate
) -> None:
    """So nothing is sent."""
    async with open_house(_policy(other="models: [small]"), clock=clock, gate=gate) as house:
        await house.serve(make_exchange())
        await house.judging_is_over()
        assert {"unpriced": 1} == dict(house.afterwards.docket.skipped)


async def test_not_more_copies_than_allowed_are_under_way(
    open_house: OpenHouse, make_exchange: Any, clock: Any, gate: Gate, failing: Any
) -> None:
    """The others are not sent, and not kept for later."""
    policy = _policy("concurrency: 1", f"{PRICE}, {failing('hang')}")
    async with open_house(policy, clock=clock, gate=gate) as house:
        for _ in range(3):
            await house.serve(make_exchange())
        await _until(lambda: house.backend("unseen").open_calls == 1)
        assert (1, {"concurrency": 2}) == (house.afterwards.shadows.running, dict(house.afterwards.docket.skipped))


async def test_a_busy_machine_gets_no_copies(open_house: OpenHouse, make_exchange: Any, clock: Any, gate: Gate) -> None:
    """Whoever asks for something goes first."""
    async with open_house(_policy("most_load: 0.5").replace("most_load: 1000, ", ""), clock=clock, gate=gate) as house:
        for load, skipped in ((0.51, {"machine_busy": 1}), (0.5, {"machine_busy": 1})):
            house.afterwards.shadows._load = lambda load=load: load
            await house.serve(make_exchange())
            await house.judging_is_over()
            assert skipped == dict(house.afterwards.docket.skipped)
        assert 1 == house.backend("unseen").open_calls


async def test_where_people_wait_nothing_is_copied(
    open_house: OpenHouse, make_exchange: Any, clock: Any, gate: Gate, failing: Any
) -> None:
    """A place that frees is for them."""
    policy = _policy(served=failing("hang", "hang"), route="admit: {use: fixed_concurrency, limit: 2, queue: 9}")
    policy = policy.replace("repeat: true", "repeat: false")
    async with open_house(policy, clock=clock, gate=gate) as house:
        exchanges = [make_exchange() for _ in range(4)]
        tasks = [house.begin(exchange) for exchange in exchanges]
        admitter = house.world.routes[0].admitter
        await house.until(lambda: admitter.waiting == 2)
        exchanges[0].hang_up()
        await tasks[2]
        assert {"somebody_waits": 1} == dict(house.afterwards.docket.skipped)
        exchanges[1].hang_up()
        await tasks[3]


async def test_a_busy_target_gets_no_copies(
    open_house: OpenHouse, make_exchange: Any, clock: Any, gate: Gate, failing: Any
) -> None:
    """As many as it says that it serves at once."""
    other = f"{PRICE}, concurrency: 1, {failing('hang')}"
    async with open_house(_policy(other=other), clock=clock, gate=gate) as house:
        await house.serve(make_exchange())
        await _until(lambda: house.backend("unseen").open_calls == 1)
        await house.serve(make_exchange())
        await _until(lambda: house.afterwards.docket.skipped)
        assert {"backend_busy": 1} == dict(house.afterwards.docket.skipped)


@pytest.mark.parametrize("share", [0.2, 0.8])
async def test_a_share_is_drawn_by_the_id(
    open_house: OpenHouse, make_exchange: Any, clock: Any, gate: Gate, share: float
) -> None:
    """Those that are drawn, and no others; an embedding is never copied."""
    policy = _policy(f"share: {share}, usd: 1000").replace("share: 1, usd: 10, ", "")
    async with open_house(policy, clock=clock, gate=gate) as house:
        for _ in range(60):
            await house.serve(make_exchange())
            await house.judging_is_over()
        ids = [entry.arrival.id for entry in house.entries]
        assert [one for one in ids if drawn(one, "shadow", share)] == [judged.request_id for judged in house.judged]
        before = house.backend("unseen").open_calls
        for _ in range(10):
            body = b'{"model":"m","input":"x"}'
            await house.serve(make_exchange(operation=Operation.EMBEDDING, body=body))
        await house.judging_is_over()
        assert before == house.backend("unseen").open_calls


async def test_a_shadow_without_a_judge_is_still_accounted_for(
    open_house: OpenHouse, make_exchange: Any, clock: Any, gate: Gate
) -> None:
    """Its cost is known, its success is not."""
    async with open_house(_policy().replace("judge: [valid_json], ", ""), clock=clock, gate=gate) as house:
        await house.serve(make_exchange())
        await house.judging_is_over()
        (judged,) = house.judged
        assert (None, "no judge is named", True) == (
            judged.judgement.success,
            judged.judgement.reason,
            judged.cost_usd > 0,
        )


async def test_a_failed_request_is_not_copied(
    open_house: OpenHouse, make_exchange: Any, clock: Any, gate: Gate, failing: Any
) -> None:
    """There is nothing to compare with."""
    async with open_house(_policy(served=failing("status")), clock=clock, gate=gate) as house:
        await house.serve(make_exchange())
        await house.judging_is_over()
        assert (Status.UPSTREAM_FAILED, 0) == (house.entry.outcome.status, house.backend("unseen").open_calls)
