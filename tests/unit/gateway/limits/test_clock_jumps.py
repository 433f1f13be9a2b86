"""Limits when the wall clock jumps: no budget is lost for ever, none is had twice, and what is late is counted."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gateway.limits.borrower import Borrower
from gateway.limits.calendar import read_period
from gateway.limits.lender import LEASE_S
from gateway.limits.limit import Claim, Limit, Measure
from gateway.stores.sqlite_lender import SqliteLender
from tests.conftest import HandClock

_DAY_S = 86_400


def _limit(amount: int, per: str) -> Limit:
    period = read_period(per)
    return Limit(scope="t", measure=Measure.REQUESTS, amount=amount, period=period, zone=ZoneInfo("UTC"))


@pytest.fixture
async def replicas(tmp_path: Path, hand_clock: Any) -> AsyncIterator[list[Borrower]]:
    """Two that share the accounts of one file."""
    made = [
        Borrower(SqliteLender(tmp_path / "limits.sqlite3", clock=hand_clock), replica=name, clock=hand_clock)
        for name in ("a", "b")
    ]
    yield made
    for borrower in made:
        await borrower.close()


async def _spend(borrower: Borrower, name: str, limit: Limit, amount: int = 1) -> bool:
    claim = Claim(requests=amount)
    if await borrower.reserve(name, claim, [limit], lasts_s=60):
        return False
    borrower.book.settle(name, claim)
    return True


@pytest.mark.parametrize("far_s", [61, 3600, 400 * _DAY_S])
async def test_a_clock_that_was_ahead_for_a_moment_takes_no_window_away(
    replicas: list[Borrower], hand_clock: HandClock, far_s: int
) -> None:
    """It goes on in the window before, as that was left, and the windows that come are whole."""
    limit, (a, _) = _limit(3, "minute"), replicas
    assert await _spend(a, "before", limit, 2)
    hand_clock.epoch_s += far_s
    assert await _spend(a, "ahead", limit)
    hand_clock.epoch_s -= far_s
    assert [True, False] == [await _spend(a, name, limit) for name in ("rest", "more")]
    hand_clock.advance(600)
    assert [True, False] == [await _spend(a, name, limit, n) for name, n in (("next", 3), ("over", 1))]


async def test_a_clock_that_was_ahead_at_the_start_is_not_waited_for(
    replicas: list[Borrower], hand_clock: HandClock
) -> None:
    """Of a window that begins in a year nobody knows where it came from."""
    limit, (a, _) = _limit(1, "hour"), replicas
    hand_clock.epoch_s += 365 * _DAY_S
    assert await _spend(a, "ahead", limit)
    hand_clock.epoch_s -= 365 * _DAY_S
    assert [True, False] == [await _spend(a, name, limit) for name in ("now", "more")]


async def test_a_small_step_back_opens_no_window_twice(replicas: list[Borrower], hand_clock: HandClock) -> None:
    """Not that before, and not the present one when the clock comes to it again."""
    limit, (a, b) = _limit(2, "minute"), replicas
    hand_clock.epoch_s += 60 - hand_clock.epoch_s % 60 - 1
    assert await _spend(a, "1", limit, 2)
    hand_clock.advance(2)
    assert await _spend(a, "2", limit, 2)
    hand_clock.epoch_s -= 2
    assert not await _spend(a, "3", limit)
    hand_clock.advance(2)
    assert [False, False] == [await _spend(one, "4", limit) for one in (a, b)]


async def test_a_clock_that_is_set_back_does_not_keep_the_dead_alive(
    replicas: list[Borrower], hand_clock: HandClock
) -> None:
    """Their leases are over as soon as any lease is, not when the clock is where it was."""
    limit, (dead, alive) = _limit(10, "day"), replicas
    assert not await dead.reserve("r", Claim(requests=9), [limit], lasts_s=60)
    hand_clock.epoch_s -= 3600
    assert not await _spend(alive, "early", limit, 9)
    hand_clock.advance(LEASE_S + 1)
    assert await _spend(alive, "late", limit, 9)


async def test_a_clock_that_jumps_ahead_forgets_no_account(tmp_path: Path, hand_clock: HandClock) -> None:
    """What was spent is there when it is back, though nobody who spent it is."""
    limit, file = _limit(10, "month"), tmp_path / "limits.sqlite3"
    for jump_s in (0, 90 * _DAY_S, -90 * _DAY_S):
        hand_clock.epoch_s += jump_s
        borrower = Borrower(SqliteLender(file, clock=hand_clock), replica=f"at {jump_s}", clock=hand_clock)
        borrower.start()
        assert [True, False] == [await _spend(borrower, str(n), limit, n) for n in (5 if jump_s >= 0 else 4, 6)]
        await borrower.close()


async def test_what_ends_after_its_time_is_spent_all_the_same(replicas: list[Borrower], hand_clock: HandClock) -> None:
    """Its place was free from then on; what it used is counted, once."""
    limit, (a, _) = _limit(10, "day"), replicas
    assert not await a.reserve("slow", Claim(requests=9), [limit], lasts_s=60)
    hand_clock.advance(61)
    assert 1 == a.book.expire(hand_clock.now_s())
    for _ in range(2):
        a.book.settle("slow", Claim(requests=7))
    assert [False, True] == [await _spend(a, str(n), limit, n) for n in (4, 3)]
