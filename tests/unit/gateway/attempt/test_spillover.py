"""What has no room at home goes to a paid backend, for so much money and no more."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gateway.attempt.spillover import SPILL
from gateway.errors import ConfigurationError
from gateway.limits.borrower import Borrower
from gateway.limits.gate import Gate
from gateway.limits.lender import Grant, Need
from gateway.limits.limit import Measure
from gateway.stores.sqlite_lender import SqliteLender
from gateway.types import Status

KEY = b"sk-acme"
HEADERS = ((b"x-api-key", KEY),)
POLICY = """
    backends:
      home: {{use: fake, text: at home, models: {{small: {{price: {free}}}}}, concurrency: 1, {home}}}
      paid: {{use: fake, text: paid for, models: {{small: {{price: {price}}}}}, {paid}}}
    routes:
      main:
        models: [small]
        targets: [home/small]
        admit: {{use: fair_queue, {admit}}}
        spill: {{to: paid/small, {spill}}}
        {route}
    {more}
"""
HANG = "fail: [{kind: hang}]"
FREE = "{input_usd_per_mtok: 0, output_usd_per_mtok: 0}"
PRICE = "{input_usd_per_mtok: 0, output_usd_per_mtok: 0, request_usd: 1}"


def _policy(**parts: str) -> str:
    usual = {
        "home": HANG,
        "paid": "",
        "price": PRICE,
        "free": FREE,
        "admit": "wait_s: 1.0e+9",
        "spill": "usd: 10",
        "route": "",
        "more": "",
    }
    return POLICY.format(**(usual | parts))


@pytest.fixture
def gate(tmp_path: Path, hand_clock: Any) -> Gate:
    """Accounts in a file of this test."""
    lender = SqliteLender(tmp_path / "limits.sqlite3", clock=hand_clock)
    return Gate(Borrower(lender, replica="only", clock=hand_clock), clock=hand_clock)


@pytest.fixture
def full_house(gate: Gate, hand_clock: Any, open_house: Any, make_exchange: Any) -> Any:
    """A house whose only place at home is taken by a request that hangs."""

    @asynccontextmanager
    async def open_(*, headers: Any = (), **parts: str) -> Any:
        async with open_house(_policy(**parts), clock=hand_clock, gate=gate) as house:
            house.route.admitter._state.pace._seconds = 1000.0  # ten seconds a token
            taken = house.begin(make_exchange(headers=headers))
            await _until(lambda: house.backend("home").open_calls)
            yield house
            taken.cancel()
            await asyncio.gather(taken, return_exceptions=True)
        assert house.is_quiet()
        assert 0 == gate.borrower.book.reservations

    return open_


async def _until(condition: Callable[[], object]) -> None:
    """Returns when the condition holds. The accounts are kept by threads, so it takes turns with them."""
    for _ in range(20_000):
        if condition():
            return
        await asyncio.to_thread(int)
    raise AssertionError("this never came true")


def _spent_usd(gate: Gate) -> Decimal:
    (account,) = [one for one in gate.borrower.book.allowances() if one.limit.scope == "spill:main"]
    assert 0 == account.held
    return Decimal(account.spent) / 10**9


async def test_what_would_wait_too_long_is_served_elsewhere(full_house: Any, gate: Gate, make_exchange: Any) -> None:
    """The money is spent, and the decision says why nobody at home was asked."""
    async with full_house() as house:
        exchange = await house.serve(make_exchange(stream=True))
        assert "paid for" == exchange.text.strip()
        entry = house.entry
        assert ("paid", Status.OK) == (entry.attempts[0].backend, entry.outcome.status)
        ((name, backend, reason),) = [(o.filter, o.candidate.backend, o.reason) for o in entry.decision.excluded]
        assert (SPILL, "home") == (name, backend)
        assert reason.startswith("it would wait ")
        assert Decimal(1) == _spent_usd(gate)


async def test_no_more_is_spent_than_the_budget_has(full_house: Any, gate: Gate, make_exchange: Any) -> None:
    """However many come at once: the others wait at home."""
    async with full_house(spill="usd: 3, per: hour", paid="fail: [null]") as house:
        tasks = [house.begin(make_exchange()) for _ in range(20)]
        await _until(lambda: 3 == len(house.entries) and 17 == house.route.admitter.waiting)
        assert {"paid"} == {entry.attempts[0].backend for entry in house.entries}
        assert Decimal(3) == _spent_usd(gate)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_replicas_share_the_budget(open_house: Any, make_exchange: Any, hand_clock: Any, tmp_path: Path) -> None:
    """Two gateways that spill at once spend it once."""
    served: list[str] = []
    gates = [
        Gate(
            Borrower(SqliteLender(tmp_path / "limits.sqlite3", clock=hand_clock), replica=name, clock=hand_clock),
            clock=hand_clock,
        )
        for name in "ab"
    ]
    policy = _policy(home="fail: [{kind: hang}], repeat: true", spill="usd: 5, after_s: 0")
    async with (
        open_house(policy, clock=hand_clock, gate=gates[0]) as one,
        open_house(policy, clock=hand_clock, gate=gates[1]) as other,
    ):
        tasks = [house.begin(make_exchange()) for _ in range(10) for house in (one, other)]
        await _until(lambda: 13 == one.route.admitter.waiting + other.route.admitter.waiting)
        served = [attempt.backend for house in (one, other) for entry in house.entries for attempt in entry.attempts]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert ["paid"] * 5 == served
    assert Decimal(5) == sum(_spent_usd(gate) for gate in gates)


async def test_where_there_is_room_at_home_nothing_is_spent(
    gate: Gate, hand_clock: Any, open_house: Any, make_exchange: Any
) -> None:
    """Money is for what would wait."""
    async with open_house(_policy(home=""), clock=hand_clock, gate=gate) as house:
        exchange = await house.serve(make_exchange(stream=True))
        assert "at home" == exchange.text.strip()
    assert () == gate.borrower.book.allowances()


async def test_what_would_be_late_at_home_is_served_elsewhere(
    gate: Gate, hand_clock: Any, open_house: Any, make_exchange: Any
) -> None:
    """By the client's deadline, at the 80th percentile; with more time it stays."""
    async with open_house(_policy(home=""), clock=hand_clock, gate=gate) as house:
        for deadline_ms, backend in ((b"1000", "paid"), (b"3600000", "home")):
            await house.serve(make_exchange(headers=((b"x-headrace-deadline-ms", deadline_ms),)))
            assert backend == house.entries[-1].attempts[0].backend
    assert "one in five answers would take" in house.entries[0].decision.excluded[0].reason


async def test_what_home_refuses_is_served_elsewhere(full_house: Any, make_exchange: Any) -> None:
    """A queue that is full, for one."""
    async with full_house(admit="queue: 0", spill="usd: 10, after_s: 1.0e+6") as house:
        await house.serve(make_exchange())
        assert "paid" == house.entry.attempts[0].backend
        assert "refused at home: 1 requests are running" in house.entry.decision.excluded[0].reason


async def test_nobody_at_home_is_no_room(gate: Gate, hand_clock: Any, open_house: Any, make_exchange: Any) -> None:
    """While all of them rest."""
    home = "fail: [{kind: status, status: 429, retry_after_s: 90}]"
    async with open_house(_policy(home=home, route="attempts: 1"), clock=hand_clock, gate=gate) as house:
        refused = await house.serve(make_exchange())
        assert 429 == refused.status
        await house.serve(make_exchange())
        assert "paid" == house.entries[1].attempts[0].backend
        assert house.entries[1].decision.excluded[0].reason.startswith("nobody at home: ")


async def test_one_that_fails_elsewhere_unseen_comes_home(full_house: Any, gate: Gate, make_exchange: Any) -> None:
    """Within the route's attempts; what it cost is settled."""
    async with full_house(paid="fail: [{kind: status, status: 503}]", home="fail: [{kind: hang}, null]") as house:
        task = house.begin(make_exchange())
        await _until(lambda: 1 == house.route.admitter.waiting)
        assert Decimal(0) == _spent_usd(gate)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert ["paid"] == [attempt.backend for attempt in house.entry.attempts]


async def test_the_last_attempt_elsewhere_is_the_last(full_house: Any, make_exchange: Any) -> None:
    """The client gets what went wrong there."""
    paid = "fail: [{kind: status, status: 503}]"
    async with full_house(paid=paid, route="attempts: 1") as house:
        exchange = await house.serve(make_exchange())
        assert (502, "paid") == (exchange.status, exchange.answer_headers["x-headrace-backend"])


async def test_a_tenants_own_money_holds_elsewhere_too(full_house: Any, gate: Gate, make_exchange: Any) -> None:
    """Who may spend nothing waits at home; who may is charged once."""
    digest = hashlib.sha256(KEY).hexdigest()
    limits = "tenants: {acme: {keys_sha256: [%s], limits: [{usd: 1.5, per: day}]}}"
    async with full_house(headers=HEADERS, more=limits % digest) as house:
        await house.serve(make_exchange(headers=HEADERS))
        waiting = house.begin(make_exchange(headers=HEADERS))
        await _until(lambda: 1 == house.route.admitter.waiting)
        (own,) = [one for one in gate.borrower.book.allowances() if one.limit.scope == "tenant:acme"]
        assert (10**9, 0) == (own.spent, own.held)
        assert Measure.USD is own.limit.measure
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


class _Waits:
    """The ``Lender`` port that grants what is needed, and after it was asked for the spill's money waits for ever."""

    trouble = ""

    def __init__(self) -> None:
        self.waits = asyncio.Event()

    async def exchange(self, replica: str, needs: Sequence[Need]) -> list[Grant]:
        """See ``Lender``."""
        del replica
        if self.waits.is_set():
            await asyncio.Event().wait()
        if any(need.account.startswith("spill:") for need in needs):
            self.waits.set()
        return [Grant(need.need, 0, 1) for need in needs]

    async def close(self) -> None:
        """See ``Lender``."""


async def test_a_client_that_leaves_while_money_is_reserved_leaves_none_reserved(
    hand_clock: Any, open_house: Any, make_exchange: Any
) -> None:
    """Neither the spill's nor its own, of which only the first half was reserved yet."""
    lender = _Waits()
    gate = Gate(Borrower(lender, replica="only", clock=hand_clock), clock=hand_clock)
    digest = hashlib.sha256(KEY).hexdigest()
    more = "tenants: {acme: {keys_sha256: [%s], limits: [{usd: 9, per: day}]}}" % digest  # noqa: UP031  # braces
    async with open_house(_policy(more=more, home="seconds_per_token: 1"), clock=hand_clock, gate=gate) as house:
        house.route.admitter._state.pace._seconds = 1000.0
        taken = house.begin(make_exchange(headers=HEADERS))
        await _until(lambda: house.backend("home").open_calls)
        leaver = house.begin(make_exchange(headers=HEADERS))
        await lender.waits.wait()
        await _until(lambda: gate.borrower.book.reservations == 3)
        leaver.cancel()
        await asyncio.gather(leaver, return_exceptions=True)
        assert 1 == gate.borrower.book.reservations
        taken.cancel()
        await asyncio.gather(taken, return_exceptions=True)
    assert 0 == gate.borrower.book.reservations


async def test_without_a_price_nothing_goes_elsewhere(full_house: Any, make_exchange: Any) -> None:
    """What it would cost nobody knows."""
    async with full_house(price="null") as house:
        task = house.begin(make_exchange())
        await _until(lambda: 1 == house.route.admitter.waiting)
        assert 0 == house.backend("paid").open_calls
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_answer_that_may_be_long_is_reserved_whole(full_house: Any, gate: Gate, make_exchange: Any) -> None:
    """As long as the request allows, where it says so."""
    price = "{input_usd_per_mtok: 0, output_usd_per_mtok: 1000000}"
    async with full_house(price=price, spill="usd: 100") as house:
        task = house.begin(make_exchange(max_tokens=101))
        await _until(lambda: 1 == house.route.admitter.waiting)
        await house.serve(make_exchange(max_tokens=100))
        assert ["paid"] == [entry.attempts[0].backend for entry in house.entries]
        assert Decimal(2) == _spent_usd(gate)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_request_that_is_itself_at_fault_costs_nothing(
    gate: Gate, hand_clock: Any, open_house: Any, make_exchange: Any
) -> None:
    """Waiting is not what it lacks."""
    async with open_house(_policy(home="operations: [completion]"), clock=hand_clock, gate=gate) as house:
        exchange = await house.serve(make_exchange())
        assert (400, 0) == (exchange.status, house.backend("paid").open_calls)


@pytest.mark.parametrize(
    ("spill", "said"),
    [
        ("{to: home/small, usd: 1}", "this is a target already"),
        ("{to: nobody, usd: 1}", "there is no backend `nobody`"),
        ("{to: paid/small}", "usd"),
        ("{to: [], usd: 1}", "should not be empty"),
        ("{to: paid/small, usd: 1, per: fortnight}", "no period"),
    ],
)
def test_a_wrong_spill_is_named(make_world: Callable[..., Any], spill: str, said: str) -> None:
    """With the place in the file."""
    text = _policy().replace("{to: paid/small, usd: 10}", spill)
    with pytest.raises(ConfigurationError, match=said):
        make_world(text)
