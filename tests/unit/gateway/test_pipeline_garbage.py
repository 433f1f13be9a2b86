import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

OpenHouse = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.fixture
def idle_collector() -> Iterator[None]:
    """The garbage collector looks for cycles when it is told to, and at no other time."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("idle_collector")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_served_request_leaves_nothing_for_the_garbage_collector(
    open_house: OpenHouse, make_exchange: Any, clock: Any, two_backends: Any, stream: bool
) -> None:
    """Its prompt and answer are freed when it ends: nothing of it knows each other in a circle."""
    async with open_house(two_backends(), clock=clock) as house:
        await house.serve(make_exchange(stream=stream))
        gc.collect()
        for _ in range(3):
            await house.serve(make_exchange(stream=stream))
        assert 0 == gc.collect()


@pytest.mark.usefixtures("idle_collector")
async def test_a_request_whose_client_left_leaves_nothing_for_the_garbage_collector(
    open_house: OpenHouse, make_exchange: Any, clock: Any, two_backends: Any, failing: Any
) -> None:
    """Not even the cancellation, whose traceback knows everybody that it came by."""

    async def leave() -> None:
        exchange = make_exchange(stream=True)
        task = house.begin(exchange)
        await house.until(lambda: house.backend("first").open_calls - house.backend("first").closed_calls == 1)
        exchange.hang_up()
        await task

    async with open_house(two_backends(failing("hang")), clock=clock) as house:
        await leave()
        gc.collect()
        for _ in range(3):
            await leave()
        assert 0 == gc.collect()
