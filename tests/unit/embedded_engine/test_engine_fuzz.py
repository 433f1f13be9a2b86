from random import Random

import pytest

from embedded_engine.engine import Engine
from embedded_engine.settings import EngineSettings
from tests.fuzzing.engine_play import Play
from tests.unit.embedded_engine.toy import ToyKernels


@pytest.mark.parametrize(
    ("seed", "context_tokens", "slots", "kv_tokens"), [(1, 128, 4, 0), (2, 24, 3, 40), (3, 96, 2, 0)]
)
def test_whatever_is_asked_every_request_comes_to_its_end(
    seed: int, context_tokens: int, slots: int, kv_tokens: int
) -> None:
    """Parameters, cancels, Unicode and tiny contexts; see `tests/fuzzing/engine_play.py` for what is promised."""
    settings = EngineSettings(
        model_path="toy",
        context_tokens=context_tokens,
        slots=slots,
        kv_tokens=kv_tokens,
        step_tokens=16,
        queue_limit=6,
        threads=1,
    )
    play = Play(Engine(settings, ToyKernels()), seed=seed)
    play.run(250)
    assert play.tally["done"] > 30
    assert play.tally["cancelled"] > 5
    assert play.tally["invalid_request"] > 5


def test_failing_kernels_fail_those_in_the_batch_and_nothing_stays_behind() -> None:
    """One decode in fifty fails; and the logits of a sequence are no numbers every now and then."""
    kernels, dice = ToyKernels(), Random(7)  # noqa: S311 - faults, not secrets
    engine = Engine(EngineSettings(model_path="toy", context_tokens=96, slots=4, step_tokens=16, threads=1), kernels)
    kernels.fails = lambda _: dice.random() < 0.02
    kernels.not_numbers = {0}
    play = Play(engine, seed=5)
    play.run(150)
    assert play.tally["decode_failed"] > 5
    assert play.tally["numerics"] > 0
    assert play.tally["done"] > 20
