import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RISER = '''
from dataclasses import dataclass, field

from backends.fake import Fake
from gateway.facts import BackendFacts, ModelFacts
from gateway.types import Operation


@dataclass(frozen=True, kw_only=True)
class LateRiser:
    """Is down for some seconds after its start; without an end in sight where it takes for ever.

    Example::

        backends: {late: {use: "late_riser:LateRiser", wakes_after_s: 3}}

    Attributes:
        wakes_after_s: From the start to being up; zero for never.
    """

    wakes_after_s: float = 0.0
    _life: dict = field(init=False, repr=False, compare=False, default_factory=dict)

    async def start(self, name, world):
        self._life.update(clock=world.clock, born_s=world.clock.now_s())

    async def send(self, call, sink):
        raise AssertionError("nothing is sent in these tests")

    def facts(self):
        left_s = self._life["born_s"] + self.wakes_after_s - self._life["clock"].now_s() if self._life else 1.0
        never = not self.wakes_after_s
        return BackendFacts(
            models={"m": ModelFacts()},
            operations=frozenset(Operation),
            down="it sleeps" if never or left_s > 0 else None,
            back_in_s=None if never else max(left_s, 0.0),
        )

    async def close(self):
        self._life.clear()
'''


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], str]:
    """A policy file with a backend that is up some seconds after its start."""
    (tmp_path / "late_riser.py").write_text(RISER)
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda seconds: f"backends: {{late: {{use: 'late_riser:LateRiser', wakes_after_s: {seconds}}}}}"


async def _after(clock: Any, seconds: float) -> None:
    """Lets time pass in small steps, with whoever waits for it."""
    for _ in range(round(seconds * 100)):
        clock.advance(0.01)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_it_waits_for_who_is_about_to_be_well(site: Any, late: Callable[[float], str]) -> None:
    """Nobody can connect before, so nobody's first request fails or goes somewhere dearer."""
    async with site.running(late(3)) as gateway:
        settled = asyncio.create_task(gateway.settle(30))
        await _after(site.clock, 2.9)
        assert not settled.done()
        await _after(site.clock, 0.2)
        await settled
        assert gateway.readiness().ready


async def test_it_does_not_wait_longer_than_it_should(
    site: Any, late: Callable[[float], str], caplog: pytest.LogCaptureFixture
) -> None:
    """And says who is missing."""
    async with site.running(late(60)) as gateway:
        settled = asyncio.create_task(gateway.settle(1))
        await _after(site.clock, 1.1)
        await settled
    assert ["late is down: it sleeps"] == [record.getMessage() for record in caplog.records]


async def test_who_will_not_come_is_not_waited_for(
    site: Any, late: Callable[[float], str], caplog: pytest.LogCaptureFixture
) -> None:
    """A model that is not there does not keep the others waiting; the log says what is to be done."""
    async with site.running(late(0)) as gateway:
        await gateway.settle(30)
    assert ["late is down: it sleeps"] == [record.getMessage() for record in caplog.records]


async def test_a_shutdown_ends_the_wait(site: Any, late: Callable[[float], str]) -> None:
    """Whoever stops a gateway that is still coming up does not wait for it."""
    async with site.running(late(60)) as gateway:
        settled = asyncio.create_task(gateway.settle(30))
        await _after(site.clock, 0.1)
        await gateway.pipeline.drain(0)
        await _after(site.clock, 0.1)
        await settled
