import random
from collections.abc import Callable
from typing import Any

import pytest

from embedded_engine.engine import Engine
from tests.unit.embedded_engine.fuzz import Fuzz
from tests.unit.embedded_engine.toy import run


@pytest.mark.parametrize("seed", range(3))
def test_no_request_leaves_a_stuck_row_or_a_held_cell(make_engine: Callable[..., Engine], toy: Any, seed: int) -> None:
    """Two hundred random ones, each ended once or dropped; then all is free, and the engine serves as if new.

    `tests/benchmarks/engine_fuzz.py` sends as many as one likes.
    """
    dice = random.Random(seed)  # noqa: S311 - sizes, not secrets
    kernels = toy()
    shape = {"slots": 4, "lanes": dice.choice((1, 2, 4)), "context_tokens": dice.choice((40, 96)), "queue_limit": 20}
    engine = make_engine(kernels, **shape, kv_tokens=shape["lanes"] * 100, prefix_cache_bytes=4000)
    kernels.fails = lambda _: dice.random() < 0.003
    fuzz = Fuzz(engine, seed)
    fuzz.send(200)
    fuzz.finish(most_steps=20_000)
    assert (0, 0, shape["lanes"] * 100) == (engine.running, engine.queued, engine.free_kv_tokens)
    assert {"length", "cancelled", "invalid_request"} <= set(fuzz.counts)
    kernels.fails = lambda _: False
    request = fuzz.plain()
    assert run(make_engine(), request).text(request.id) == run(engine, request).text(request.id)
