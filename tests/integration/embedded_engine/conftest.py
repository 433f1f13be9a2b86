"""The real default model on both kernels."""

from collections.abc import Iterator
from pathlib import Path

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
