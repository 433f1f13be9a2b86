import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.clock import SystemClock
from gateway.errors import ConfigurationError
from gateway.limits.lender import Grant, LenderLost, Line, Need, grant
from gateway.limits.task_budgets import KEEP_S, Short, TaskBudgets
from gateway.rules.policy_file import parse_policy
from gateway.rules.world import build_world
from gateway.stores.sqlite_lender import SqliteLender

KEY = "sk-acme"
TENANT = f"tenants: {{acme: {{keys_sha256: [{hashlib.sha256(KEY.encode()).hexdigest()}]"
BACKENDS = """
    backends:
      a: {use: fake, text: one two three, models: {small: {price: {input_usd_per_mtok: 0, output_usd_per_mtok: 0,
          request_usd: 0.25}}}}
      b: {use: fake, text: one two three, models: [cheap]}
"""


@asynccontextmanager
async def _gate(make_site: Any, policy: str) -> AsyncIterator[httpx.AsyncClient]:
    async with make_site().running(BACKENDS + policy) as gateway:
        transport = httpx.ASGITransport(app=gateway.asgi, raise_app_exceptions=False)
        headers = {"authorization": f"Bearer {KEY}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://gate", headers=headers) as client:
            yield client


async def _ask(client: httpx.AsyncClient, task: str = "t", **headers: str) -> httpx.Response:
    body = {"model": "small", "messages": [{"role": "user", "content": "Say a few words."}]}
    return await client.post("/v1/chat/completions", json=body, headers={"x-headrace-task": task, **headers})


@pytest.mark.parametrize(
    ("budget", "served"), [("steps: 2", 2), ("usd: 0.75", 3), ("tokens: 1", 0), ("usd: 0.24", 0), ("steps: 0", 0)]
)
async def test_a_task_takes_what_its_route_allows_and_no_more(make_site: Any, budget: str, served: int) -> None:
    """Then it is refused with a code of its own, and no time to come back; another task goes on."""
    policy = f"    routes: {{r: {{models: [small], targets: [a/small], cost: [money], task: {{{budget}}}}}}}"
    async with _gate(make_site, policy) as client:
        answers = [await _ask(client) for _ in range(served + 1)]
        assert [200] * served + [429] == [answer.status_code for answer in answers]
        error = answers[-1].json()["error"]
        assert ("task_budget_exceeded", "x-headrace-task") == (error["code"], error["param"])
        assert "retry-after" not in answers[-1].headers
        assert bool(served) == ((await _ask(client, "other")).status_code == 200)


async def test_a_header_lowers_the_budget_and_never_raises_it(make_site: Any) -> None:
    """The lowest of the route's, the tenant's and the client's holds."""
    policy = f"""
    routes: {{r: {{models: [small], targets: [a/small], task: {{steps: 3}}}}}}
    {TENANT}, task: {{steps: 2}}}}}}
    """
    async with _gate(make_site, policy) as client:
        statuses = [(await _ask(client, **{"x-headrace-task-budget": "steps=9"})).status_code for _ in range(3)]
        assert [200, 200, 429] == statuses
        assert 200 == (await _ask(client, "u", **{"x-headrace-task-budget": "steps=1"})).status_code
        assert 429 == (await _ask(client, "u", **{"x-headrace-task-budget": "steps=1"})).status_code
        assert 200 == (await _ask(client, "u")).status_code


async def test_beyond_its_budget_a_task_goes_on_elsewhere(make_site: Any) -> None:
    """On the cheaper route that the policy names, for as long as that one's own budget lasts."""
    policy = """
    routes:
      r: {models: [small], targets: [a/small], task: {usd: 0.25, otherwise: slow}}
      slow: {models: [slow], targets: [b/cheap], task: {steps: 2}}
    """
    async with _gate(make_site, policy) as client:
        answers = [await _ask(client) for _ in range(4)]
        assert [200, 200, 200, 429] == [answer.status_code for answer in answers]
        assert ["a", "b", "b"] == [answer.headers["x-headrace-backend"] for answer in answers[:3]]


async def test_what_was_not_taken_is_free_again(make_site: Any) -> None:
    """A long answer is reserved and a short one settled: the budget goes by what was used."""
    policy = "    routes: {r: {models: [small], targets: [a/small], task: {tokens: 1500}}}"
    async with _gate(make_site, policy) as client:
        assert [200] * 10 == [(await _ask(client)).status_code for _ in range(10)]


def test_a_route_to_go_on_must_be_there() -> None:
    """The policy file is refused, with the place."""
    text = BACKENDS + "    routes: {r: {models: [small], targets: [a/small], task: {usd: 1, otherwise: slw}}}"
    with pytest.raises(ConfigurationError, match=r"routes\.r\.task\.otherwise: there is no route `slw`"):
        build_world(parse_policy(text, file="policy.yaml"), file="policy.yaml")


def test_a_budget_limits_something() -> None:
    """One without an amount is a mistake."""
    text = BACKENDS + "    routes: {r: {models: [small], targets: [a/small], task: {otherwise: r}}}"
    with pytest.raises(ConfigurationError, match="at least one of usd, tokens, seconds, steps"):
        parse_policy(text, file="policy.yaml")


class Shelf:
    """The ``Lender`` port in memory, as a server keeps it; ``lost`` makes it fail."""

    def __init__(self) -> None:
        self.lines: dict[str, dict[str, tuple[int, int, int]]] = {}
        self.lost = False
        self.told: list[Need] = []
        self.asked = asyncio.Event()

    async def exchange(self, replica: str, needs: Any) -> list[Grant]:
        """See ``Lender``."""
        self.told += needs
        self.asked.set()
        await asyncio.sleep(0)
        if self.lost:
            raise LenderLost("away")
        granted = []
        for need in needs:
            lines = self.lines.setdefault(need.account, {})
            others = [Line(*line, alive=True) for name, line in lines.items() if name != replica]
            granted.append(grant(need, others))
            lines[replica] = (need.kept + granted[-1].more, need.spent, need.taken)
        return granted

    async def close(self) -> None:
        """See ``Lender``."""


async def test_processes_share_a_tasks_budget(hand_clock: Any) -> None:
    """Of ten steps that two processes ask for at once, six are had; what one gave back another may take."""
    shelf = Shelf()
    first, second = (TaskBudgets(shelf, replica=name, clock=hand_clock) for name in ("a", "b"))
    asked = [
        budgets.reserve(f"{name}{n}", "acme/t", {"steps": 6}, {"steps": 1})
        for n in range(5)
        for name, budgets in (("a", first), ("b", second))
    ]
    answers = await asyncio.gather(*asked)
    assert 6 == answers.count(None)
    names = [f"{name}{n}" for n in range(5) for name in ("a", "b")]
    held = [name for name, short in zip(names, answers, strict=True) if short is None]
    for name in held:
        (first if name[0] == "a" else second).settle(name, {"steps": 0})
    await first.close()
    await second.close()
    third = TaskBudgets(shelf, replica="c", clock=hand_clock)
    assert await third.reserve("c", "acme/t", {"steps": 6}, {"steps": 6}) is None
    assert Short("steps", 6, 0) == await third.reserve("d", "acme/t", {"steps": 6}, {"steps": 1})
    assert shelf.told[0].end_unix_s == int(hand_clock.unix_s()) + KEEP_S
    await third.close()


async def test_what_ends_while_another_end_is_told_is_told_too(hand_clock: Any) -> None:
    """Nothing stays reserved with the lender for a request that is over."""
    shelf = Shelf()
    budgets = TaskBudgets(shelf, replica="a", clock=hand_clock)
    for name in ("1", "2"):
        assert await budgets.reserve(name, "acme/t", {"steps": 2}, {"steps": 1}) is None
    budgets.settle("1", {"steps": 1})
    shelf.asked.clear()
    await shelf.asked.wait()
    budgets.settle("2", {"steps": 0})
    await budgets.close()
    assert [(1, 1, 1)] == list(shelf.lines["task:acme/t/steps"].values())


async def test_without_the_lender_a_process_goes_by_what_it_knows(hand_clock: Any) -> None:
    """Its own spending counts on, and the last that it heard of the others'."""
    shelf = Shelf()
    budgets = TaskBudgets(shelf, replica="a", clock=hand_clock)
    assert await budgets.reserve("1", "acme/t", {"steps": 2}, {"steps": 1}) is None
    budgets.settle("1", {"steps": 1})
    budgets.settle("1", {"steps": 1})
    shelf.lost = True
    assert await budgets.reserve("2", "acme/t", {"steps": 2}, {"steps": 1}) is None
    assert Short("steps", 2, 0) == await budgets.reserve("3", "acme/t", {"steps": 2}, {"steps": 1})
    shelf.lost = False
    budgets.settle("2", {"steps": 1})
    await budgets.close()
    assert [(2, 2)] == [(spent, taken) for _, spent, taken in shelf.lines["task:acme/t/steps"].values()]


async def test_workers_share_a_tasks_budget_through_a_file(tmp_path: Path) -> None:
    """Two processes, each with a connection of its own; a restart forgets nothing."""
    file, clock, usd = tmp_path / "limits.sqlite3", SystemClock(), {"usd": 100}
    lenders = [SqliteLender(file, clock=clock) for _ in range(3)]
    first, second, later = (TaskBudgets(lender, replica=str(n), clock=clock) for n, lender in enumerate(lenders))
    assert await first.reserve("1", "acme/t", usd, {"usd": 60}) is None
    assert Short("usd", 100, 40) == await second.reserve("2", "acme/t", usd, {"usd": 60})
    assert await second.reserve("3", "acme/t", usd, {"usd": 40}) is None
    first.settle("1", {"usd": 70})
    second.settle("3", {"usd": 10})
    await first.close()
    await second.close()
    assert Short("usd", 100, 20) == await later.reserve("4", "acme/t", usd, {"usd": 21})
    assert await later.reserve("5", "acme/t", usd, {"usd": 20}) is None
    await later.close()
    for lender in lenders:
        await lender.close()
