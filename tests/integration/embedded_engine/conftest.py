"""The real default model on both kernels, and a look at what is left behind."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from embedded_engine.engine import Engine
from embedded_engine.settings import EngineSettings


@pytest.fixture(scope="session", params=["ik_llama", "llama_cpp"])
def engine(request: pytest.FixtureRequest, default_model_path: Path) -> Iterator[Engine]:
    """One engine for all tests of a kernel; each test leaves it idle."""
    settings = EngineSettings(
        model_path=str(default_model_path), kernels=request.param, context_tokens=512, slots=4, threads=1
    )
    engine = Engine(settings)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def stop_process() -> Callable[[int], None]:
    """Stops a child in its tracks, and returns when it stands."""

    def stop(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)

    return stop


_MARK = "ENGINE_TEST_SESSION"
_PATIENCE_S = 10.0
"""An engine whose last caller broke off waits three seconds for another."""


@pytest.fixture(scope="session", autouse=True)
def _no_engine_is_left_behind() -> Iterator[None]:
    """Whatever was started from here on, by whomever, has ended when the session ends (where there is a /proc)."""
    mark = f"{_MARK}={uuid4().hex}"
    os.environ[_MARK] = mark.partition("=")[2]
    yield
    del os.environ[_MARK]
    deadline_s = time.monotonic() + _PATIENCE_S
    while (left := _engines_with(mark)) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert [] == left, "engine processes were left behind, and have been killed now"


def _engines_with(mark: str) -> list[int]:
    return [int(process.name) for process in Path("/proc").glob("[0-9]*") if _is_engine_with(mark, process)]


def _is_engine_with(mark: str, process: Path) -> bool:
    """A process that has ended, and waits only to be asked for its exit code, has no environment any more."""
    try:
        environment = (process / "environ").read_bytes().split(b"\0")
        return mark.encode() in environment and b"embedded_engine.process" in (process / "cmdline").read_bytes()
    except OSError:  # it has ended meanwhile, or is none of ours
        return False
