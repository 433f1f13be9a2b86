import asyncio

import pytest

from embedded_engine.generation import EngineDied, Generation, RequestFailed
from embedded_engine.messages import Accepted, Done, Failed, Generate, Text

_ACCEPTED = Accepted(id=1, prompt_tokens=3)
_TEXT = Text(id=1, choice=0, text="a", tokens=1)


def _done(choice: int = 0) -> Done:
    return Done(id=1, choice=choice, reason="stop", completion_tokens=1)


def _generation(n: int = 1) -> tuple[Generation, list[int]]:
    forgotten: list[int] = []
    return Generation(Generate(id=1, text="x", n=n), forgotten.append), forgotten


async def test_events_come_in_order_and_end_with_the_last_choice() -> None:
    """Two choices, two Done; then the iteration is over."""
    generation, forgotten = _generation(n=2)
    events = [_ACCEPTED, _TEXT, _done(1), _done(0)]
    assert [False, False, False, True] == [generation.receive(event) for event in events]
    assert events == [event async for event in generation]
    generation.cancel()
    assert [] == forgotten


async def test_a_waiting_consumer_is_woken() -> None:
    """It waits without polling."""
    generation, _ = _generation()
    waiting = asyncio.create_task(anext(generation))
    await asyncio.sleep(0)
    generation.receive(_TEXT)
    assert _TEXT == await waiting


async def test_a_failure_carries_code_and_field() -> None:
    """After the events that came before it."""
    generation, _ = _generation()
    generation.receive(_ACCEPTED)
    assert generation.receive(Failed(id=1, code="invalid_request", message="no", param="top_p"))
    assert _ACCEPTED == await anext(generation)
    with pytest.raises(RequestFailed, match="no") as caught:
        await anext(generation)
    assert ("invalid_request", "top_p") == (caught.value.code, caught.value.param)


async def test_the_engines_death_ends_it() -> None:
    """At once, for whoever waits."""
    generation, _ = _generation()
    waiting = asyncio.create_task(anext(generation))
    await asyncio.sleep(0)
    generation.finish(EngineDied("gone"))
    with pytest.raises(EngineDied, match="gone"):
        await waiting


async def test_closing_it_early_tells_the_engine_once() -> None:
    """And ends the iteration."""
    generation, forgotten = _generation()
    generation.receive(_ACCEPTED)
    await generation.aclose()
    await generation.aclose()
    assert [1] == forgotten
    assert [_ACCEPTED] == [event async for event in generation]
