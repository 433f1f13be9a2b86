"""The accounts of limits in a real server, against the arithmetic that they follow."""

import asyncio
import random
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

import pytest

from gateway.clock import SystemClock
from gateway.limits.borrower import Borrower
from gateway.limits.calendar import read_period
from gateway.limits.lender import LEASE_S, Grant, LenderLost, Line, Need, grant, line_of
from gateway.limits.limit import FOREVER, Claim, Limit, Measure
from gateway.limits.task_budgets import Short, TaskBudgets
from gateway.stores.redis import RedisStore
from gateway.stores.redis_address import read_redis_address
from gateway.stores.redis_lender import RedisLender
from tests.redis_servers import RedisServer

_UTC = ZoneInfo("UTC")
FAR_UNIX_S = 4_000_000_000
ROUNDS = 300


def _store(url: str) -> RedisStore:
    return RedisStore(read_redis_address(url), prefix="test", timeout_s=2.0)


@dataclass
class Model:
    """The accounts as a dictionary."""

    lines: dict[str, dict[str, Line]] = field(default_factory=dict)

    def exchange(self, replica: str, needs: list[Need]) -> list[Grant]:
        """What the server should answer."""
        answers = []
        for need in needs:
            account = self.lines.setdefault(need.account, {})
            answer = grant(need, [line for name, line in account.items() if name != replica])
            account[replica] = line_of(need, answer.more)
            answers.append(answer)
        return answers


def _random_needs(dice: random.Random) -> list[Need]:
    def need(account: str) -> Need:
        spent, held, surplus, wish = (dice.randrange(300) for _ in range(4))
        return Need(
            account=account,
            end_unix_s=dice.choice((FAR_UNIX_S, FOREVER.end_unix_s)),
            amount=dice.randrange(2000) * 10 ** dice.choice((0, 0, 9)),
            spent=spent,
            taken=spent + held,
            kept=spent + held + surplus,
            need=dice.randrange(200),
            wish=wish,
        )

    return [need(account) for account in dice.sample(["a", "b", "c"], dice.randrange(1, 4))]


Grants = list[list[Grant]]


async def _random_exchanges(url: str) -> tuple[Grants, Grants]:
    """What the arithmetic says to three hundred exchanges, and what the server says."""
    dice = random.Random(20261130)  # noqa: S311  # a test's dice
    store, model = _store(url), Model()
    lender = RedisLender(store)
    expected, actual = [], []
    for _ in range(ROUNDS):
        replica, needs = dice.choice("xyz"), _random_needs(dice)
        expected.append(model.exchange(replica, needs))
        actual.append(await lender.exchange(replica, needs))
    await store.close()
    return expected, actual


async def test_the_script_grants_what_the_arithmetic_says(redis_server: RedisServer) -> None:
    """Three hundred random exchanges of three replicas on three accounts."""
    expected, actual = await _random_exchanges(redis_server.url)
    assert expected == actual


async def test_a_cluster_grants_the_same(redis_cluster: list[RedisServer]) -> None:
    """All accounts lie in one slot, so a script may touch several."""
    places = ",".join(f"127.0.0.1:{server.port}" for server in redis_cluster)
    expected, actual = await _random_exchanges(f"redis+cluster://{places}")
    assert expected == actual


async def test_every_account_ends_by_itself(redis_server: RedisServer) -> None:
    """Also one that somebody made without an end: it is mended with its next use."""
    store = _store(redis_server.url)
    with redis_server.client() as client:
        client.hset("{test}:limit:a", "old", "5 5 5 0")
        need = Need(account="a", end_unix_s=FOREVER.end_unix_s, amount=9, spent=0, taken=0, kept=0, need=9)
        assert [Grant(4, 5, 1, 5, 5)] == await RedisLender(store).exchange("new", [need])
        assert 0 < client.pttl("{test}:limit:a") <= (LEASE_S + 3600) * 1000
    await store.close()


@pytest.mark.parametrize("kind", ["a string", "a line of another version"])
async def test_what_is_no_account_is_thrown_away(redis_server: RedisServer, kind: str) -> None:
    """One key that somebody else wrote to does not keep all limits from being told."""
    store = _store(redis_server.url)
    need = Need(account="a", end_unix_s=FAR_UNIX_S, amount=9, spent=0, taken=0, kept=0, need=9)
    with redis_server.client() as client:
        if kind == "a string":
            client.set("{test}:limit:a", "words")
        else:
            client.hset("{test}:limit:a", "other", "v9 5 5")
        assert [Grant(9, 0, 1)] == await RedisLender(store).exchange("new", [need])
        assert [b"new"] == list(client.hgetall("{test}:limit:a"))
    await store.close()


async def test_a_lease_from_before_the_clock_was_set_back_is_shortened(redis_server: RedisServer) -> None:
    """Or from a server whose clock was ahead: it is as long as any lease from now on, and not longer."""
    store = _store(redis_server.url)
    need = Need(account="a", end_unix_s=FAR_UNIX_S, amount=9, spent=0, taken=0, kept=0, need=9)
    with redis_server.client() as client:
        client.hset("{test}:limit:a", "dead", "5 1 5 9999999999999")
        assert [Grant(4, 5, 2, 5, 1)] == await RedisLender(store).exchange("new", [need])
        *_, until_ms = client.hget("{test}:limit:a", "dead").split()
        now_s, _ = client.time()
        assert 0 < int(until_ms) / 1000 - now_s <= LEASE_S + 1
    await store.close()


async def test_a_server_that_is_gone_is_lost(redis_server: RedisServer) -> None:
    """The port's own error, and it works again afterwards."""
    store = _store(redis_server.url)
    lender = RedisLender(store)
    need = Need(account="a", end_unix_s=FAR_UNIX_S, amount=9, spent=0, taken=0, kept=0, need=1)
    redis_server.kill()
    with pytest.raises(LenderLost):
        await lender.exchange("x", [need])
    redis_server.start()
    assert [Grant(1, 0, 1)] == await lender.exchange("x", [need])
    await store.close()


async def test_the_budget_of_a_task_holds_over_four_replicas(redis_server: RedisServer) -> None:
    """A hundred steps at once: ten are had. What was reserved and not taken is free for the next replica."""
    stores = [_store(redis_server.url) for _ in range(5)]
    replicas = [TaskBudgets(RedisLender(one), replica=f"r{i}", clock=SystemClock()) for i, one in enumerate(stores)]
    steps = {"steps": 10}
    asked = [replicas[i % 4].reserve(f"q{i}", "acme/t", steps, {"steps": 1}) for i in range(100)]
    had = [i for i, short in enumerate(await asyncio.gather(*asked)) if short is None]
    assert 10 == len(had)
    for i in had:
        replicas[i % 4].settle(f"q{i}", {"steps": i % 2})
    for replica in replicas[:4]:
        await replica.close()
    spent = sum(i % 2 for i in had)
    assert await replicas[4].reserve("last", "acme/t", steps, {"steps": 10 - spent}) is None
    assert Short("steps", 10, 0) == await replicas[4].reserve("more", "acme/t", steps, {"steps": 1})
    await replicas[4].close()
    for store in stores:
        await store.close()


async def test_a_budget_for_ten_is_ten_over_four_replicas(redis_server: RedisServer) -> None:
    """A hundred at once: ten are let in, and the budget is used up, not more and not less."""
    limit = Limit(scope="t", measure=Measure.REQUESTS, amount=10, period=read_period("day"), zone=_UTC)
    stores = [_store(redis_server.url) for _ in range(4)]
    replicas = [Borrower(RedisLender(store), replica=f"r{i}", clock=SystemClock()) for i, store in enumerate(stores)]
    asked = [replicas[i % 4].reserve(f"q{i}", Claim(requests=1), [limit], lasts_s=60) for i in range(100)]
    assert 10 == sum(not short for short in await asyncio.gather(*asked))
    for store in stores:
        await store.close()
