import asyncio

import pytest

from embedded_engine.generation import EngineDied, RequestFailed
from embedded_engine.messages import Accepted, Embed, Embedded, Failed
from embedded_engine.vectors import VectorsInTheMaking


async def test_they_are_done_with_the_last_text() -> None:
    """In order, with the tokens that were counted."""
    making = VectorsInTheMaking(Embed(id=1, texts=("a", "b")))
    making.receive(Accepted(id=1, prompt_tokens=5))
    making.receive(Embedded(id=1, text=0, vector=b"x"))
    assert not making.done.done()
    making.receive(Embedded(id=1, text=1, vector=b"y"))
    assert ((b"x", b"y"), 5) == await making.done


async def test_a_failure_and_a_death_are_raised_once() -> None:
    """What comes after is passed over."""
    making = VectorsInTheMaking(Embed(id=1, token_ids=((1,),)))
    making.receive(Failed(id=1, code="numerics", message="no"))
    making.die(EngineDied("gone"))
    making.receive(Embedded(id=1, text=0, vector=b"x"))
    with pytest.raises(RequestFailed, match="no"):
        await making.done


async def test_who_no_longer_waits_is_not_disturbed() -> None:
    """A cancelled request may still hear what was on its way."""
    making = VectorsInTheMaking(Embed(id=1, texts=("a",)))
    making.done.cancel()
    making.receive(Embedded(id=1, text=0, vector=b"x"))
    making.die(EngineDied("gone"))
    with pytest.raises(asyncio.CancelledError):
        await making.done
