"""Reservations out of what was borrowed, over a file that several replicas share."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.limits.borrower import Borrower
from gateway.limits.calendar import read_period
from gateway.limits.lender import Grant, LenderLost, Line, Need, grant
from gateway.limits.limit import Claim, Limit, Measure
from gateway.stores.sqlite_lender import SqliteLender
from tests.conftest import HandClock

UTC = ZoneInfo("UTC")


def _limit(measure: Measure, amount: int, per: str | None = "day", scope: str = "tenant:acme") -> Limit:
    period = read_period(per) if per is not None else None
    return Limit(scope=scope, measure=measure, amount=amount, period=period, zone=UTC)


@pytest.fixture
async def replica(tmp_path: Path, hand_clock: Any) -> AsyncIterator[Callable[[str], Borrower]]:
    """Makes replicas that share the accounts of one file."""
    made: list[Borrower] = []

    def make(name: str) -> Borrower:
        borrower = Borrower(SqliteLender(tmp_path / "limits.sqlite3", clock=hand_clock), replica=name, clock=hand_clock)
        made.append(borrower)
        return borrower

    yield make
    for borrower in made:
        await borrower.close()


async def _take(borrower: Borrower, name: str, limit: Limit, amount: int = 1) -> bool:
    claim = Claim(**{limit.measure.value: amount})
    return not await borrower.reserve(name, claim, [limit], lasts_s=60)


async def test_ten_calls_are_ten_calls_however_many_ask_at_once(replica: Any) -> None:
    """A hundred at once, over two replicas: exactly ten are let in."""
    limit = _limit(Measure.REQUESTS, 10)
    a, b = replica("a"), replica("b")
    asked = [_take(a if i % 3 else b, f"r{i}", limit) for i in range(100)]
    assert 10 == sum(await asyncio.gather(*asked))


async def test_a_reservation_is_settled_once_at_what_was_used(replica: Any) -> None:
    """What was reserved and not used is free again; a second settlement changes nothing."""
    limit = _limit(Measure.OUTPUT_TOKENS, 1000)
    a = replica("a")
    assert await _take(a, "one", limit, 900)
    assert not await _take(a, "two", limit, 200)
    a.book.settle("one", Claim(output_tokens=300))
    a.book.settle("one", Claim(output_tokens=300))
    assert await _take(a, "two", limit, 700)
    assert not await _take(a, "three", limit, 1)


async def test_what_was_abandoned_costs_nothing(replica: Any) -> None:
    """A failed attempt gives everything back."""
    limit = _limit(Measure.USD, 1000)
    a = replica("a")
    for round_ in range(50):
        assert not await a.reserve(f"r{round_}", Claim(nano_usd=1000), [limit], lasts_s=60)
        a.book.abandon(f"r{round_}")
    assert 0 == a.book.reservations


async def test_all_limits_or_none(replica: Any) -> None:
    """Where one limit refuses, nothing is held on the others, and the refusal names the one."""
    requests, tokens = _limit(Measure.REQUESTS, 100), _limit(Measure.TOKENS, 50)
    a = replica("a")
    (short,) = await a.reserve(
        "r", Claim(requests=1, input_tokens=40, output_tokens=20), [requests, tokens], lasts_s=60
    )
    assert Measure.TOKENS is short.allowance.limit.measure
    assert [0, 0] == [allowance.held for allowance in a.book.allowances()]


async def test_a_reservation_that_nobody_ends_is_a_lease(replica: Any, hand_clock: Any) -> None:
    """At its time it is abandoned."""
    limit = _limit(Measure.CONCURRENT, 1, per=None)
    a = replica("a")
    assert await _take(a, "lost", limit)
    hand_clock.advance(61)
    assert 1 == a.book.expire(hand_clock.now_s())
    assert await _take(a, "next", limit)


async def test_what_a_dead_replica_held_is_free_and_what_it_spent_is_not(replica: Any, hand_clock: Any) -> None:
    """After ``kill -9``, the others have back what was only borrowed or held once its lease is over."""
    limit = _limit(Measure.REQUESTS, 10)
    dead, alive = replica("dead"), replica("alive")
    for number in range(3):
        assert await _take(dead, f"r{number}", limit)
    dead.book.settle("r0", Claim(requests=1))
    await dead._tell(dead.book.allowances(), lambda _: 5)
    assert not await _take(alive, "all", limit, 9)
    hand_clock.advance(11)
    assert await _take(alive, "all", limit, 9)
    assert not await _take(alive, "more", limit)


async def test_a_window_begins_anew_once(replica: Any, hand_clock: Any) -> None:
    """At its end there is a fresh one, on every replica the same; a clock that is set back opens none again."""
    limit = _limit(Measure.REQUESTS, 2, per="hour")
    a, b = replica("a"), replica("b")
    assert [True, True, False] == [await _take(one, name, limit) for one, name in ((a, "1"), (b, "2"), (a, "3"))]
    hand_clock.advance(3600)
    assert [True, True, False] == [await _take(one, name, limit) for one, name in ((a, "4"), (b, "5"), (b, "6"))]
    hand_clock.epoch_s -= 3600
    assert not await _take(a, "7", limit)


async def test_a_limit_that_is_lowered_holds_at_once(replica: Any) -> None:
    """What was borrowed under the old one may not be used up; what was taken stays taken; raised, there is more."""
    a = replica("a")
    assert await _take(a, "one", _limit(Measure.REQUESTS, 100), 20)
    await a._tell(a.book.allowances(), lambda _: 20)
    lowered = [await _take(a, name, _limit(Measure.REQUESTS, 21)) for name in ("two", "three")]
    assert [True, False] == lowered
    assert not await _take(a, "four", _limit(Measure.REQUESTS, 5))
    assert await _take(a, "five", _limit(Measure.REQUESTS, 22))


async def test_what_is_spent_outlives_a_restart(replica: Any) -> None:
    """A replica that comes later finds what others have spent."""
    limit = _limit(Measure.USD, 100)
    first = replica("first")
    assert not await first.reserve("r", Claim(nano_usd=90), [limit], lasts_s=60)
    first.book.settle("r", Claim(nano_usd=70))
    first.start()
    await first.close()
    second = replica("second")
    assert await second.reserve("r", Claim(nano_usd=31), [limit], lasts_s=60)
    assert not await second.reserve("r", Claim(nano_usd=30), [limit], lasts_s=60)


def _taken_away(folder: Path) -> int:
    """Deletes the accounts; the mode that their file had."""
    mode = (folder / "limits.sqlite3").stat().st_mode & 0o777
    for file in folder.glob("limits.sqlite3*"):
        file.unlink()
    return mode


async def test_what_is_spent_outlives_the_loss_of_the_accounts(replica: Any, tmp_path: Path) -> None:
    """A file that is deleted while it is open is begun anew, and told by each replica what it knows."""
    limit = _limit(Measure.REQUESTS, 10)
    a, b = replica("a"), replica("b")
    for borrower, name in ((a, "1"), (b, "2")):
        assert await _take(borrower, name, limit, 5)
        borrower.book.settle(name, Claim(requests=5))
        await borrower._tell(borrower._news(), lambda _: 0)
    assert 0o600 == _taken_away(tmp_path)
    await b._tell(b._news(), lambda _: 0)
    assert not await _take(a, "3", limit)
    assert 0o600 == _taken_away(tmp_path)


async def test_all_allowances_are_told_again_in_turn(replica: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few with each beat, those whose window is over no more."""
    monkeypatch.setattr("gateway.limits.borrower._TOLD_AGAIN", 2)
    a = replica("a")
    limits = [_limit(Measure.REQUESTS, 10, scope=f"tenant:{n}") for n in range(3)]
    for limit in limits:
        assert await _take(a, limit.scope, limit)
        a.book.settle(limit.scope, Claim(requests=1))
    await a._tell(a.book.allowances(), lambda _: 0)
    told = [[one.limit.scope for one in a._news()] for _ in range(3)]
    assert [["tenant:0", "tenant:1"], ["tenant:2"], ["tenant:0", "tenant:1"]] == told


class _Gone:
    """The ``Lender`` port where nobody answers."""

    def __init__(self) -> None:
        self.gone = False
        self.replicas = 4

    async def exchange(self, replica: str, needs: Sequence[Need]) -> list[Grant]:
        """See ``Lender``."""
        del replica
        if self.gone:
            raise LenderLost("no answer")
        return [Grant(max(need.need, 10), 0, self.replicas) for need in needs]

    async def close(self) -> None:
        """See ``Lender``."""


async def test_without_the_lender_it_goes_on_with_what_it_has_and_then_with_its_part(hand_clock: Any) -> None:
    """What is borrowed may be used up; of the next window it takes a quarter, there being four replicas."""
    lender = _Gone()
    a = Borrower(lender, replica="a", clock=hand_clock)
    limit = _limit(Measure.REQUESTS, 100, per="hour")
    assert await _take(a, "first", limit)
    lender.gone = True
    assert 9 == sum([await _take(a, f"r{i}", limit) for i in range(20)])
    assert [True] == [a.lost]
    hand_clock.advance(3600)
    assert 25 == sum([await _take(a, f"n{i}", limit) for i in range(40)])
    lender.gone = False
    assert not await _take(a, "early", limit)  # the beat finds out, no request waits to see
    await a._tell(a._news(), lambda _: 0)
    assert [False] == [a.lost]
    assert await _take(a, "back", limit)


class _Slow:
    """The ``Lender`` port of one replica that grants what is needed, after a while, and nothing beyond it."""

    def __init__(self, clock: Any) -> None:
        self.clock = clock
        self.asked = asyncio.Event()
        self.open = asyncio.Event()
        self.exchanges = 0
        self.gone = False

    async def exchange(self, replica: str, needs: Sequence[Need]) -> list[Grant]:
        """See ``Lender``."""
        del replica
        self.exchanges += 1
        self.asked.set()
        await self.open.wait()
        if self.gone:
            self.clock.advance(0.5)
            raise LenderLost("no answer")
        return [grant(need._replace(wish=0), ()) for need in needs]

    async def close(self) -> None:
        """See ``Lender``."""


async def test_what_was_granted_is_not_given_back_before_it_is_taken(hand_clock: Any) -> None:
    """Some ask while others are already waiting for an answer: all get what there is plenty of, in two exchanges."""
    lender = _Slow(hand_clock)
    a = Borrower(lender, replica="a", clock=hand_clock)
    limit = _limit(Measure.REQUESTS, 1000)
    early = [asyncio.create_task(_take(a, f"early{i}", limit)) for i in range(8)]
    await lender.asked.wait()
    late = [asyncio.create_task(_take(a, f"late{i}", limit)) for i in range(8)]
    await asyncio.sleep(0)
    lender.open.set()
    assert [True] * 16 == await asyncio.gather(*early, *late)
    assert 2 == lender.exchanges


async def test_a_loss_is_waited_for_once(hand_clock: Any) -> None:
    """Those who ask while an exchange is failing do not begin another, nor do those who come after it."""
    lender = _Slow(hand_clock)
    lender.open.set()
    a = Borrower(lender, replica="a", clock=hand_clock)
    limit = _limit(Measure.REQUESTS, 10)
    assert await _take(a, "before", limit)
    hand_clock.advance(86_400)
    lender.asked.clear()
    lender.open.clear()
    lender.gone = True
    early = asyncio.create_task(_take(a, "early", limit))
    await lender.asked.wait()
    late = asyncio.create_task(_take(a, "late", limit, 9))
    await asyncio.sleep(0)
    lender.open.set()
    assert [True, True, False] == [await early, await late, await _take(a, "more", limit)]
    assert 2 == lender.exchanges


async def test_one_that_hangs_up_while_it_borrows_takes_nobody_along(replica: Any) -> None:
    """The others who wait for the same exchange get what they asked for."""
    limit = _limit(Measure.REQUESTS, 10)
    a = replica("a")
    leaver = asyncio.create_task(_take(a, "leaver", limit))
    stayer = asyncio.create_task(_take(a, "stayer", limit))
    await asyncio.sleep(0)
    leaver.cancel()
    assert await stayer
    assert 1 == a.book.reservations


async def test_a_connection_that_had_died_is_no_loss(hand_clock: Any) -> None:
    """What fails at once is tried again at once, and nobody notices."""

    class Broken(_Slow):
        async def exchange(self, replica: str, needs: Sequence[Need]) -> list[Grant]:
            granted = await super().exchange(replica, needs)
            if self.exchanges == 1:
                raise LenderLost("reset by peer")
            return granted

    lender = Broken(hand_clock)
    lender.open.set()
    a = Borrower(lender, replica="a", clock=hand_clock)
    assert await _take(a, "r", _limit(Measure.REQUESTS, 10))
    assert (False, 2) == (a.lost, lender.exchanges)


class _Shared:
    """The ``Lender`` port of several replicas, in memory, that can be lost for all of them at once."""

    def __init__(self) -> None:
        self.gone = False
        self.lines: dict[str, dict[str, Line]] = {}

    async def exchange(self, replica: str, needs: Sequence[Need]) -> list[Grant]:
        """See ``Lender``."""
        if self.gone:
            raise LenderLost("no answer")
        granted = []
        for need in needs:
            lines = self.lines.setdefault(need.account, {})
            granted.append(grant(need, [line for name, line in lines.items() if name != replica]))
            lines[replica] = Line(need.kept + granted[-1].more, need.spent, need.taken, alive=True)
        return granted

    async def close(self) -> None:
        """See ``Lender``."""


async def test_a_tenant_that_was_idle_has_a_standing_lease_while_the_accounts_are_lost(hand_clock: Any) -> None:
    """The fiftieth part of its limit on each replica, and its part of the slots: never more than the limit in all."""
    lender = _Shared()
    a, b = (Borrower(lender, replica=name, clock=hand_clock) for name in "ab")
    limit, slots = _limit(Measure.TOKENS, 1000), _limit(Measure.CONCURRENT, 10, per=None)
    for one in (a, b, a, b):
        one.watch([limit, slots])
        await one._tell(one._news(), one._wish)
    lender.gone = True
    for one in (a, b):
        claim = Claim(input_tokens=10)
        served = [not await one.reserve(f"r{i}", claim, [limit], lasts_s=60) for i in range(9)]
        assert [True] * 2 + [False] * 7 == served
        assert 5 == sum([await _take(one, f"slot{i}", slots) for i in range(20)])


async def test_a_standing_lease_takes_nothing_from_those_who_need_it(hand_clock: Any) -> None:
    """Where little is left there is none: the last of a limit can be used by whoever asks."""
    lender = _Shared()
    idle, busy = (Borrower(lender, replica=name, clock=hand_clock) for name in ("idle", "busy"))
    limit = _limit(Measure.REQUESTS, 100)
    for one in (idle, busy, idle):
        one.watch([limit])
        await one._tell(one._news(), one._wish)
    assert 98 == sum([await _take(busy, f"r{i}", limit) for i in range(150)])
    for _ in range(2):  # it hears how little is left, and gives its own back
        await idle._tell(idle._news(), idle._wish)
    assert await _take(busy, "last", limit, 2)
    assert not await _take(busy, "more", limit)


async def test_standing_leases_are_told_in_turn(replica: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand idle tenants are not a thousand accounts to write with each beat."""
    monkeypatch.setattr("gateway.limits.borrower._TOLD_AGAIN", 3)
    a = replica("a")
    a.watch([_limit(Measure.REQUESTS, 100, scope=f"tenant:{n}") for n in range(10)])
    for _ in range(4):
        await a._tell(a._news(), a._wish)
    assert [2] * 10 == [one.granted for one in a.book.allowances()]
    assert [3, 3, 3, 1] == sorted((len(a._news()) for _ in range(4)), reverse=True)


async def test_what_was_never_heard_of_is_refused_while_the_accounts_are_lost(hand_clock: Any) -> None:
    """A process that has never reached them would count alone: it says no, and so does one that knows nothing of it."""
    lender = _Shared()
    lender.gone = True
    a = Borrower(lender, replica="a", clock=hand_clock)
    limit, other = _limit(Measure.REQUESTS, 100), _limit(Measure.REQUESTS, 100, scope="tenant:other")
    assert not await _take(a, "r", limit)
    assert a.lost
    lender.gone = False
    await a._tell(a.book.allowances(), a._wish)
    lender.gone = True
    assert await _take(a, "r", limit)
    assert not await _take(a, "r2", other)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 30)), max_size=60), st.integers(0, 60))
@settings(deadline=None, max_examples=60)
async def test_replicas_that_are_cut_off_stay_within_the_limit(asked: list[tuple[int, int]], lost_after: int) -> None:
    """Whoever asks for whatever and whenever the accounts are lost: only what was lent is used."""
    clock, lender, limit = HandClock(), _Shared(), _limit(Measure.REQUESTS, 200)
    replicas = [Borrower(lender, replica=str(n), clock=clock) for n in range(3)]
    for one in replicas * 2:
        one.watch([limit])
        await one._tell(one._news(), one._wish)
    served = 0
    for number, (who, amount) in enumerate(asked):
        lender.gone = lender.gone or number >= lost_after
        served += amount * await _take(replicas[who], f"r{number}", limit, amount)
    assert served <= 200
