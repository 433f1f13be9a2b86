import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.batching.slots import Slots


@pytest.mark.parametrize(
    ("taken", "size", "waits"),
    [([], 100, False), ([4], 6, False), ([4], 7, True), ([100], 1, True), ([1, 1], 1, True), ([1], 1, False)],
)
async def test_so_many_and_so_many_bytes_of_them(taken: list[int], size: int, waits: bool) -> None:
    """Two, of ten bytes together; one that is larger is alone."""
    slots = Slots(2, 10)
    for one in taken:
        await slots.take(one)
    taking = asyncio.ensure_future(slots.take(size))
    await asyncio.sleep(0)
    assert waits == (not taking.done())
    for one in taken:
        slots.give_back(one)
    await taking


@given(sizes=st.lists(st.integers(0, 30), max_size=20), most=st.integers(1, 4))
async def test_everybody_gets_in_and_the_bounds_hold(sizes: list[int], most: int) -> None:
    """Whatever their sizes."""
    slots, inside = Slots(most, 20), []

    async def stay(size: int) -> None:
        await asyncio.sleep(0)
        inside.remove(size)
        slots.give_back(size)

    async with asyncio.TaskGroup() as group:
        for size in sizes:
            await slots.take(size)
            inside.append(size)
            assert len(inside) <= most
            assert sum(inside) <= 20 or len(inside) == 1
            group.create_task(stay(size))
    assert [] == inside
