import asyncio
from typing import Any

import pytest

from gateway.errors import Overloaded, RequestTimeout
from gateway.limits.held_bodies import HeldBodies
from tests.exchanges import MemoryExchange


def _exchange(body: bytes, *headers: tuple[bytes, bytes]) -> MemoryExchange:
    return MemoryExchange(request_body=body, headers=headers or ((b"content-length", b"%d" % len(body)),))


async def test_there_is_room_for_so_many_bytes() -> None:
    """Whoever finds none is told when to come back; who leaves makes some."""
    held = HeldBodies(most_bytes=100, longest_bytes=60)
    assert b"x" * 60 == await held.body("a", _exchange(b"x" * 60))
    with pytest.raises(Overloaded) as caught:
        await held.body("b", _exchange(b"x" * 41))
    assert (1.0, 1) == (caught.value.retry_after_s, held.held)
    held.leave("b")
    held.leave("a")
    await held.body("b", _exchange(b"x" * 41))
    assert 1 == held.held


@pytest.mark.parametrize(
    "headers",
    [((b"transfer-encoding", b"chunked"),), ((b"content-length", b"1"), (b"content-encoding", b"gzip")), ()],
)
async def test_of_an_unknown_length_the_longest_is_set_aside(headers: tuple[tuple[bytes, bytes], ...]) -> None:
    """Until it is there, and known."""
    held = HeldBodies(most_bytes=100, longest_bytes=60)
    exchange = MemoryExchange(request_body=b"xx", headers=headers or ((b"other", b"1"),))
    exchange.sending.clear()
    arriving = asyncio.create_task(held.body("a", exchange))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await held.body("b", _exchange(b"x" * 41))
    exchange.sending.set()
    await arriving
    assert b"x" * 98 == await held.body("b", _exchange(b"x" * 98, (b"content-length", b"50")))


async def test_one_alone_may_always_come() -> None:
    """A bound for all that is below the bound for one would else refuse everybody."""
    held = HeldBodies(most_bytes=10, longest_bytes=60)
    assert b"x" * 60 == await held.body("a", _exchange(b"x" * 60))


class _Lost(MemoryExchange):
    async def body(self) -> Any:
        raise RequestTimeout("too slow")


async def test_a_body_that_never_came_gives_its_room_back() -> None:
    """With its request, as every other."""
    held = HeldBodies(most_bytes=100, longest_bytes=60)
    with pytest.raises(RequestTimeout):
        await held.body("a", _Lost(headers=((b"content-length", b"60"),)))
    held.leave("a")
    assert (0, 0) == (held.held, held._held_bytes)
