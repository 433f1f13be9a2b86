import asyncio
import logging
from typing import Any

import pytest

from backends._renewed import Loan, Renewed
from gateway.errors import UpstreamUnreachable


class Lender:
    """Lends numbers, each for 1000 s, when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.may = asyncio.Event()
        self.may.set()
        self.broken = False

    async def lend(self) -> Loan[int]:
        """The next number."""
        self.asked += 1
        number = self.asked
        await self.may.wait()
        if self.broken:
            raise UpstreamUnreachable("nobody lends")
        return Loan(number, 1000)


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_many_that_wait_share_one_fetch(hand_clock: Any) -> None:
    """And it goes on where the first of them leaves."""
    lender = Lender()
    lender.may.clear()
    renewed = Renewed(lender.lend, clock=hand_clock, what="it")
    waiting = [asyncio.ensure_future(renewed.value()) for _ in range(5)]
    await _settled()
    waiting[0].cancel()
    await _settled()
    lender.may.set()
    assert [1, 1, 1, 1] == await asyncio.gather(*waiting[1:])
    assert 1 == lender.asked


async def test_nobody_waits_for_a_renewal(hand_clock: Any) -> None:
    """The old one serves while the new one is fetched, in the last fifth of its life."""
    lender = Lender()
    renewed = Renewed(lender.lend, clock=hand_clock, what="it")
    assert 1 == await renewed.value()
    hand_clock.advance(799)
    assert 1 == await renewed.value()
    assert 1 == lender.asked
    hand_clock.advance(2)
    lender.may.clear()
    assert [1, 1] == [await renewed.value(), await renewed.value()]
    await _settled()
    assert 2 == lender.asked
    lender.may.set()
    await _settled()
    assert 2 == await renewed.value()


async def test_a_renewal_that_fails_is_tried_again_and_told_when_there_is_nothing_left(
    hand_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """At most once in 5 s; after the end of the old one its error is the request's."""
    lender = Lender()
    renewed = Renewed(lender.lend, clock=hand_clock, what="the token")
    assert 1 == await renewed.value()
    lender.broken = True
    hand_clock.advance(900)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert 1 == await renewed.value()
            await _settled()
    assert 2 == lender.asked
    assert ["the token could not be renewed: nobody lends"] == [record.getMessage() for record in caplog.records]
    hand_clock.advance(101)
    with pytest.raises(UpstreamUnreachable):
        await renewed.value()
    lender.broken = False
    assert 4 == await renewed.value()


async def test_closing_leaves_no_fetch_behind(hand_clock: Any) -> None:
    """Twice is once."""
    lender = Lender()
    lender.may.clear()
    renewed = Renewed(lender.lend, clock=hand_clock, what="it")
    waiting = asyncio.ensure_future(renewed.value())
    await _settled()
    await renewed.close()
    await renewed.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
