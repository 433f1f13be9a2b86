import asyncio
import gc
import io
import logging
import platform
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.app import Gateway
from gateway.commands.serve import _Server
from gateway.settings import Settings

REMOTE = "backends: {{r: {{use: openai_compatible, preset: groq, models: [m], api_key_env: {0}}}}}"


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """Logging of the process is as it was before."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)


@pytest.fixture
def collector() -> Iterator[None]:
    """The garbage collector of the process is as it was before."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def _gateway(policy_file: Path, folder: Path, clock: Any) -> tuple[Gateway, Settings]:
    policy_file.write_text(REMOTE.format("FIRST_KEY"))
    settings = Settings(policy=policy_file, state_dir=folder, model_dir=folder, ledger="off")
    return Gateway(settings, clock=clock), settings


def _change(policy_file: Path) -> None:
    policy_file.write_text(REMOTE.format("SECOND_KEY"))


async def test_a_reload_hides_the_secrets_that_it_brings(
    policy_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hand_clock: Any
) -> None:
    """A key that only the new file names is hidden in the logs from then on."""
    monkeypatch.setenv("FIRST_KEY", "value-of-the-first")
    monkeypatch.setenv("SECOND_KEY", "value-of-the-second")
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    gateway, settings = _gateway(policy_file, tmp_path, hand_clock)
    server = _Server(gateway, settings)
    _change(policy_file)
    await server._reload_policy()
    logging.getLogger("gateway").warning("refused: %s", "value-of-the-second")
    await gateway.close()
    assert "refused: [hidden]" in stream.getvalue()
    assert "value-of-the-second" not in stream.getvalue()


@pytest.mark.usefixtures("collector")
async def test_once_it_serves_the_garbage_collector_keeps_out_of_the_way(
    policy_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hand_clock: Any
) -> None:
    """What was built at the start is frozen: no collection walks through it between two requests."""
    monkeypatch.setenv("FIRST_KEY", "value-of-the-first")
    gateway, settings = _gateway(policy_file, tmp_path, hand_clock)
    server = _Server(gateway, settings.model_copy(update={"port": 0}))
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup()
    assert 0 < gc.get_freeze_count()
    await server.shutdown()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries do so by themselves")
async def test_memory_goes_back_while_nobody_is_being_served(
    policy_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hand_clock: Any
) -> None:
    """Of what is free between what lives. While somebody is served it stays, so that nobody waits for that."""

    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    monkeypatch.setenv("FIRST_KEY", "value-of-the-first")
    gateway, settings = _gateway(policy_file, tmp_path, hand_clock)
    server, task = _Server(gateway, settings), asyncio.current_task()
    assert task is not None
    blocks = [bytes(33_000) for _ in range(2000)]
    del blocks[::2]
    held = [resident_bytes()]
    gateway.pipeline._tasks.add(task)
    await server.on_tick(0)
    held.append(resident_bytes())
    gateway.pipeline._tasks.clear()
    await server.on_tick(0)
    held.append(resident_bytes())
    await gateway.close()
    assert abs(held[1] - held[0]) < 1_000_000
    assert held[1] - held[2] > 20_000_000
