"""One engine process for several callers, each of which finds it by its socket."""

import asyncio
import os
import re
import signal
import stat
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from embedded_engine.client import EngineDied, EngineStartFailed
from embedded_engine.messages import Accepted, Done, Generate, Text
from embedded_engine.settings import EngineSettings
from embedded_engine.shared_client import SharedEngine

pytestmark = pytest.mark.model

Eventually = Callable[..., Awaitable[None]]


def _settings(path: Path | str) -> EngineSettings:
    return EngineSettings(model_path=str(path), context_tokens=512, slots=2, queue_limit=8, threads=1)


@pytest.fixture
def address() -> Iterator[Path]:
    """Where the engine listens: a short path, as the operating system wants it."""
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        yield Path(folder) / "engine.sock"


@pytest.fixture
def started(caplog: pytest.LogCaptureFixture) -> Callable[[], list[int]]:
    """The processes that were started, by their ids."""
    caplog.set_level("INFO", logger="embedded_engine")
    return lambda: [int(number) for number in re.findall(r"engine process (\d+) started", caplog.text)]


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def _answer(engine: SharedEngine, request: Generate) -> tuple[str, int]:
    text, tokens = "", 0
    async with aclosing(engine.generate(request)) as generation:
        async for event in generation:
            text += event.text if isinstance(event, Text) else ""
            tokens += event.completion_tokens if isinstance(event, Done) else 0
    return text, tokens


async def test_who_comes_at_once_meets_at_one_engine(
    default_model_path: Path, address: Path, started: Any, eventually: Eventually
) -> None:
    """Of five that find none one starts it; all are answered, each its own; with the last that leaves it ends."""
    engines = await asyncio.gather(*(SharedEngine.join(_settings(default_model_path), address) for _ in range(5)))
    assert {2} == {(await engine.ready()).slots for engine in engines}
    (pid,) = started()
    assert 0o600 == _mode(address)
    requests = [Generate(text="One, two,", temperature=0, max_tokens=number + 2) for number in range(5)]
    answers = await asyncio.gather(*map(_answer, engines, requests))
    assert [2, 3, 4, 5, 6] == [tokens for _, tokens in answers]
    longest = answers[-1][0]
    assert all(longest.startswith(text) for text, _ in answers)
    for engine in engines:
        assert _is_running(pid)
        await engine.close()
    await eventually(lambda: not _is_running(pid))


async def test_who_leaves_takes_only_its_own_requests_along(
    default_model_path: Path, address: Path, started: Any, eventually: Eventually
) -> None:
    """A caller that breaks off frees the slots it had, and the others' requests go on; facts reach everybody."""
    stays, goes = [await SharedEngine.join(_settings(default_model_path), address) for _ in range(2)]
    await asyncio.gather(stays.ready(), goes.ready())
    endless = [goes.generate(Generate(text="Once upon a time", max_tokens=500, seed=n)) for n in range(2)]
    for generation in endless:
        assert isinstance(await anext(generation), Accepted)
    waiting = asyncio.create_task(_answer(stays, Generate(text="One, two,", temperature=0, max_tokens=4)))
    await eventually(lambda: stays.facts is not None and 2 == stays.facts.running)
    goes._transport.abort()
    with pytest.raises(EngineDied):
        async for _ in endless[0]:
            pass
    assert 4 == (await waiting)[1]
    await eventually(lambda: stays.facts is not None and 0 == stays.facts.running + stays.facts.queued)
    assert stays.facts is not None
    assert stays.facts.steps < 400
    await stays.close()
    (pid,) = started()
    await eventually(lambda: not _is_running(pid))


async def test_after_a_crash_one_of_them_starts_the_next(
    default_model_path: Path, address: Path, started: Any, eventually: Eventually
) -> None:
    """Everybody hears of the death at once, everybody comes back, and there is one engine again."""
    engines = [await SharedEngine.join(_settings(default_model_path), address) for _ in range(2)]
    generations = [engine.generate(Generate(text="Once", max_tokens=400)) for engine in engines]
    for generation in generations:
        assert isinstance(await anext(generation), Accepted)
    (first,) = started()
    os.kill(first, signal.SIGKILL)
    for engine, generation in zip(engines, generations, strict=True):
        with pytest.raises(EngineDied):
            async for _ in generation:
                pass
        await engine.wait_over()
        await engine.close()
    again = await asyncio.gather(*(SharedEngine.join(_settings(default_model_path), address) for _ in range(2)))
    request = Generate(text="One, two,", temperature=0, max_tokens=3)
    assert [3, 3] == [tokens for _, tokens in await asyncio.gather(*(_answer(engine, request) for engine in again))]
    _, second = started()
    for engine in again:
        await engine.close()
    await eventually(lambda: not _is_running(second))


async def test_one_that_stands_still_is_ended_by_any_of_them_for_all(
    default_model_path: Path, address: Path, started: Any, eventually: Eventually, stop_process: Any
) -> None:
    """Also by one that only found it; the others hear of its death, and the next one is a new one."""
    engines = [await SharedEngine.join(_settings(default_model_path), address) for _ in range(2)]
    await asyncio.gather(*(engine.ready() for engine in engines))
    (first,) = started()
    assert [first, first] == [engine.pid for engine in engines]
    stop_process(first)
    waiting = engines[0].generate(Generate(text="Once"))
    await engines[1].keep_watch(0.1)
    with pytest.raises(EngineDied):
        await anext(waiting)
    for engine in engines:
        await engine.close()
    await eventually(lambda: not _is_running(first))
    again = await SharedEngine.join(_settings(default_model_path), address)
    await again.ready()
    _, second = started()
    assert second == again.pid
    await again.close()
    await eventually(lambda: not _is_running(second))


async def test_an_engine_that_nobody_comes_back_to_ends(
    default_model_path: Path, address: Path, started: Any, eventually: Eventually
) -> None:
    """A line that breaks may come back, as that of a caller that is replaced; after a while nobody waits for it."""
    engine = await SharedEngine.join(_settings(default_model_path), address)
    await engine.ready()
    engine._transport.abort()
    (pid,) = started()
    back = await SharedEngine.join(_settings(default_model_path), address)
    await back.ready()
    assert [pid] == started()
    back._transport.abort()
    await eventually(lambda: not _is_running(pid))


async def test_everybody_is_told_why_it_cannot_start(address: Path, started: Any) -> None:
    """A file that is missing is said to all who wait, with its code."""
    engines = [await SharedEngine.join(_settings(address.with_name("none.gguf")), address) for _ in range(2)]
    for engine in engines:
        with pytest.raises(EngineStartFailed) as caught:
            await engine.ready()
        assert "model_not_found" == caught.value.code
        await engine.close()
    assert 1 == len(started())


async def test_a_path_that_is_too_long_is_an_error(tmp_path: Path) -> None:
    """And leaves nothing behind."""
    with pytest.raises(OSError, match="too long"):
        await SharedEngine.join(_settings("x"), tmp_path / ("x" * 120))
