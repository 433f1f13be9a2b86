"""Batches run on what others leave: nobody who waits for an answer waits behind one."""

import asyncio
from typing import Any

import pytest

from gateway.batching.desk import MOST_RUNNING
from tests.unit.gateway.batching.conftest import KEYS, client_of, line

POLICY = """
    backends:
      a: {{use: fake, text: one, first_token_s: 10, concurrency: {places}, models: [small]}}
    routes:
      r: {{models: [small], targets: [a/small], admit: {admit}}}
"""
FAIR = "{use: fair_queue, limit: null}"


def _lines(count: int) -> list[dict[str, Any]]:
    return [line(str(n)) for n in range(count)]


async def test_who_comes_gets_the_place_of_a_line_at_once(gate: Any) -> None:
    """Without a moment going by; the line is sent again afterwards, and both of its requests are on the ledger."""
    async with gate(POLICY.format(places=1, admit=FAIR), ledger="sqlite") as client:
        begun = await client.hand_in(_lines(1))
        await client.eventually(lambda: client.backend().open_calls == 1)
        asking = asyncio.create_task(client.ask())
        await client.eventually(lambda: client.backend().open_calls == 2)
        assert 1 == client.backend().closed_calls
        client.clock.advance(10)
        assert 200 == (await asking).status_code
        batch = await client.over_in_time(begun["id"], 5.0)
        statuses = sorted(row["status"] for row in await client.rows())
    assert {"total": 1, "completed": 1, "failed": 0} == batch["request_counts"]
    assert ["client_gone", "ok", "ok"] == statuses


async def test_a_place_is_left_free_for_who_comes(gate: Any) -> None:
    """Of four places lines take three, and nobody has to give way."""
    async with gate(POLICY.format(places=4, admit=FAIR)) as client:
        await client.hand_in(_lines(8))
        await client.eventually(lambda: client.backend().open_calls == 3)
        asking = asyncio.create_task(client.ask())
        await client.eventually(lambda: client.backend().open_calls == 4)
        assert 0 == client.backend().closed_calls
        client.clock.advance(10)
        assert 200 == (await asking).status_code


async def test_the_newest_lines_give_way_and_as_many_as_are_needed(gate: Any) -> None:
    """The others go on."""
    async with gate(POLICY.format(places=4, admit=FAIR)) as client:
        await client.hand_in(_lines(8))
        await client.eventually(lambda: client.backend().open_calls == 3)
        asking = [asyncio.create_task(client.ask()) for _ in range(3)]
        await client.eventually(lambda: client.backend().open_calls == 6)
        assert 2 == client.backend().closed_calls
        client.clock.advance(10)
        assert [200] * 3 == [(await one).status_code for one in asking]


async def test_nothing_begins_while_others_have_all_places(gate: Any) -> None:
    """And it does when one is free."""
    async with gate(POLICY.format(places=2, admit=FAIR)) as client:
        asking = [asyncio.create_task(client.ask()) for _ in range(2)]
        await client.eventually(lambda: client.backend().open_calls == 2)
        begun = await client.hand_in(_lines(1))
        await client.until(begun["id"], lambda batch: batch["status"] == "in_progress")
        for _ in range(5):
            client.clock.advance(0.05)
            await client.batch(begun["id"])
        assert 2 == client.backend().open_calls
        client.clock.advance(10)
        assert [200] * 2 == [(await one).status_code for one in asking]
        assert "completed" == (await client.over_in_time(begun["id"], 5.0))["status"]


@pytest.mark.parametrize("admit", ["{use: fixed_concurrency, limit: 1, queue: 5}", "{use: fair_queue, limit: 1}"])
async def test_an_admitter_with_bounds_of_its_own_is_looked_at_too(gate: Any, admit: str) -> None:
    """Who waits there is noticed within a twentieth of a second."""
    async with gate(POLICY.format(places="null", admit=admit)) as client:
        begun = await client.hand_in(_lines(2))
        await client.eventually(lambda: client.backend().open_calls == 1)
        asking = asyncio.create_task(client.ask())
        (admitter,) = client.gateway.world.admitters().values()
        await client.eventually(lambda: admitter.waiting == 1)
        client.clock.advance(0.05)
        await client.eventually(lambda: client.backend().open_calls == 2)
        assert 1 == client.backend().closed_calls
        client.clock.advance(10)
        assert 200 == (await asking).status_code
        assert "completed" == (await client.over_in_time(begun["id"], 5.0))["status"]


async def test_where_there_is_no_bound_lines_have_their_own(gate: Any) -> None:
    """A provider that takes any number gets so many."""
    text = POLICY.format(places="null", admit="{use: fair_queue, limit: null}")
    async with gate(text, batch_lines_at_once=4) as client:
        await client.hand_in(_lines(20))
        await client.eventually(lambda: client.backend().open_calls == 4)
        assert 4 == client.gateway._annex._wing._batches._desk._shop.idle.in_flight


async def test_batches_of_two_tenants_run_side_by_side(gate: Any) -> None:
    """A long one does not keep a short one waiting to its end."""
    async with gate(POLICY.format(places="null", admit=FAIR), batch_lines_at_once=4) as client:
        long = await client.hand_in(_lines(40))
        await client.eventually(lambda: client.backend().open_calls == 4)
        short = await client.hand_in(_lines(2))
        await client.over_in_time(short["id"], 10.0)
        assert "in_progress" == (await client.batch(long["id"]))["status"]


async def test_who_comes_last_does_not_wait_for_all_batches_of_another(gate: Any) -> None:
    """One tenant's fill all places for batches, and may wait there for a day; of them the newest gives its place up."""
    policy = POLICY.format(places="null", admit=FAIR)
    async with gate(policy, key=KEYS["acme"]) as client, client_of(client.gateway, KEYS["beta"]) as other:
        begun = []
        for _ in range(MOST_RUNNING + 1):
            begun.append(await client.hand_in(_lines(1)))
            await client.until(begun[0]["id"], lambda batch: batch["status"] == "in_progress")
        desk = client.gateway._annex._wing._batches._desk
        await client.eventually(lambda: desk.running == MOST_RUNNING == client.backend().open_calls)
        last = await other.hand_in(_lines(1))
        await client.eventually(lambda: client.backend().open_calls == MOST_RUNNING + 1)
        assert (MOST_RUNNING, MOST_RUNNING) == (desk.running, desk._shop.idle.in_flight)
        await other.over_in_time(last["id"], 10.0)
        for one in begun:
            assert "completed" == (await client.over_in_time(one["id"], 10.0))["status"]
