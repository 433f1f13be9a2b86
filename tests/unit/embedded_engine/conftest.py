"""Fixtures around the toy model."""

from collections.abc import Callable, Sequence

import pytest

from embedded_engine.answer_plan import AnswerPlan
from embedded_engine.beginning import Beginning
from embedded_engine.choice import Choice, Running
from embedded_engine.drafting import Drafting
from embedded_engine.engine import Engine
from embedded_engine.intake import Prepared
from embedded_engine.sampling.parameters import Sampling
from embedded_engine.settings import EngineSettings
from embedded_engine.speculation.costs import StepCosts
from embedded_engine.speculation.speculator import Speculator
from embedded_engine.vocabulary import Vocabulary
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


@pytest.fixture
def vocabulary() -> Vocabulary:
    """The toy model's."""
    return Vocabulary(ToyKernels())


@pytest.fixture
def prepared(vocabulary: Vocabulary) -> Callable[..., Prepared]:
    """Makes greedy requests: a number, prompt tokens, and other fields."""

    def make(number: int, prompt_tokens: int = 4, *, n: int = 1, max_tokens: int = 4, scope: str = "") -> Prepared:
        sampling = Sampling(seed=0, temperature=0)
        prompt = tuple((number + token) % 250 for token in range(prompt_tokens))
        plan = AnswerPlan(vocabulary=vocabulary)
        return Prepared(id=number, prompt=prompt, max_tokens=max_tokens, sampling=sampling, plan=plan, n=n, scope=scope)

    return make


@pytest.fixture
def new_choices(vocabulary: Vocabulary) -> Callable[[Running], list[Choice]]:
    """Begins a request's choices, with nothing drafted."""
    costs = StepCosts({1: 1.0})
    speculator = Speculator(costs)
    return Beginning(vocabulary, speculator, Drafting(speculator, None, costs), speculates=False).choices
