"""Fixtures around the toy model."""

from collections.abc import Callable, Sequence

import pytest

from embedded_engine.engine import Engine
from embedded_engine.settings import EngineSettings
from tests.unit.embedded_engine.toy import Answers, ToyKernels, after_prompt, run


@pytest.fixture
def toy() -> Callable[..., ToyKernels]:
    """Makes kernels."""
    return ToyKernels


@pytest.fixture
def make_engine() -> Callable[..., Engine]:
    """Makes an engine on toy kernels; keywords are those of `EngineSettings`."""

    def make(kernels: ToyKernels | None = None, **settings: int) -> Engine:
        defaults = {"context_tokens": 128, "slots": 4, "threads": 1, "step_tokens": 16}
        return Engine(EngineSettings(model_path="toy.gguf", **{**defaults, **settings}), kernels or ToyKernels())

    return make


@pytest.fixture
def run_all() -> Callable[..., Answers]:
    """Runs requests to their ends."""
    return run


@pytest.fixture
def answering() -> Callable[..., ToyKernels]:
    """Makes kernels that answer the raw prompt "?" with these tokens and then end."""

    def make(answer: bytes | Sequence[int]) -> ToyKernels:
        return ToyKernels(next_token=after_prompt(b"?", list(answer)))

    return make
