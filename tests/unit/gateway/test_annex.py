import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.annex import LOOK_EVERY_S, Annex
from gateway.batching.place import DATABASE_FILE

PATIENCE_S = 20.0
POLICY = """
backends:
  a: {use: fake}
routes:
  r: {models: ["*"], targets: [a]}
"""


class _Wing:
    """Pages that count what is done with them."""

    def __init__(self) -> None:
        self.asked = self.started = self.stopped = 0
        self.at_work = asyncio.Event()

    async def asgi(self, scope: Any, receive: Any, send: Any) -> None:
        del scope, receive, send
        self.asked += 1

    def start(self) -> None:
        self.started += 1
        self.at_work.set()

    async def stop(self) -> None:
        self.stopped += 1


class _Annexed:
    """An annex over wings that are counted; ``awaited`` is whether work is there."""

    def __init__(self, clock: Any) -> None:
        self.made: list[_Wing] = []
        self.awaited = False
        self.faults: list[Exception] = []
        self.annex = Annex(self._make, awaited=self._is_awaited, clock=clock)

    def _is_awaited(self) -> bool:
        if self.faults:
            raise self.faults.pop()
        return self.awaited

    async def _make(self) -> _Wing:
        await asyncio.sleep(0)  # others come meanwhile
        self.made.append(_Wing())
        return self.made[-1]

    async def ask(self) -> None:
        await self.annex({"type": "http"}, None, None)  # type: ignore[arg-type]  # nobody reads or writes


@pytest.fixture
async def annexed(hand_clock: Any) -> AsyncIterator[_Annexed]:
    """One that has been started."""
    made = _Annexed(hand_clock)
    made.annex.start()
    await asyncio.sleep(0)
    yield made
    await made.annex.stop()


async def test_the_first_who_ask_share_what_is_made_for_them(annexed: _Annexed) -> None:
    """It is made once, and its own work begins with it."""
    assert [] == annexed.made
    await asyncio.gather(annexed.ask(), annexed.ask(), annexed.ask())
    (wing,) = annexed.made
    assert 3 == wing.asked
    await asyncio.wait_for(wing.at_work.wait(), PATIENCE_S)
    assert 1 == wing.started


async def test_work_that_somebody_has_left_is_found(annexed: _Annexed, hand_clock: Any) -> None:
    """Another process may leave it at any time: nobody has to ask here."""
    assert [] == annexed.made
    annexed.awaited = True
    hand_clock.advance(LOOK_EVERY_S)
    await asyncio.wait_for(annexed.annex._opened.wait(), PATIENCE_S)
    (wing,) = annexed.made
    await asyncio.wait_for(wing.at_work.wait(), PATIENCE_S)


async def test_what_goes_wrong_once_is_tried_again(
    annexed: _Annexed, hand_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder that cannot be looked into for a moment must not keep work waiting until the next start."""
    annexed.faults.append(PermissionError("/secret/path"))
    annexed.awaited = True
    hand_clock.advance(LOOK_EVERY_S)
    for _ in range(10):
        await asyncio.sleep(0)
    assert [] == annexed.made
    (record,) = caplog.records
    assert "PermissionError" in record.getMessage()
    assert "secret" not in record.getMessage()
    hand_clock.advance(LOOK_EVERY_S)
    await asyncio.wait_for(annexed.annex._opened.wait(), PATIENCE_S)
    await asyncio.wait_for(annexed.made[0].at_work.wait(), PATIENCE_S)


async def test_what_was_never_asked_for_has_nothing_to_stop(annexed: _Annexed) -> None:
    """Stopping makes nothing, and may be done again."""
    await annexed.annex.stop()
    await annexed.annex.stop()
    assert [] == annexed.made


async def test_who_is_asked_before_the_start_begins_nothing(hand_clock: Any) -> None:
    """A page is answered; what works by itself waits for the start, and stops at the end."""
    other = _Annexed(hand_clock)
    await other.ask()
    (wing,) = other.made
    assert (1, 0) == (wing.asked, wing.started)
    await other.annex.stop()
    assert 1 == wing.stopped


async def test_a_gateway_runs_batches_that_were_left_there(make_site: Any, tmp_path: Path) -> None:
    """The file in which they lie is enough, whoever made it."""
    (tmp_path / DATABASE_FILE).touch()
    async with make_site().running(POLICY) as gateway:
        await asyncio.wait_for(gateway._annex._opened.wait(), PATIENCE_S)


async def test_health_and_metrics_need_no_annex(make_site: Any) -> None:
    """What is asked every few seconds is there from the start; other methods of these paths are not its."""
    async with make_site().running(POLICY) as gateway:
        transport = httpx.ASGITransport(app=gateway.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
            for path in ("/", "/healthz", "/readyz", "/metrics"):
                assert 200 == (await client.get(path)).status_code
                assert 200 == (await client.head(path)).status_code
            assert gateway._annex._wing is None
            refused = await client.post("/healthz")
            assert (405, "GET, HEAD") == (refused.status_code, refused.headers["allow"])
            assert gateway._annex._wing is not None
