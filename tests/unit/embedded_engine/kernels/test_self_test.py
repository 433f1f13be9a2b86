from collections.abc import Callable
from typing import Any

import pytest

from embedded_engine.errors import LoadFailed
from embedded_engine.kernels.port import ContextShape
from embedded_engine.kernels.self_test import open_tested_context

MakeToy = Callable[..., Any]


def _shape(micro_batch_rows: int) -> ContextShape:
    return ContextShape(kv_tokens=128, sequences=2, threads=1, batch_rows=64, micro_batch_rows=micro_batch_rows)


def test_sound_kernels_keep_their_micro_batch(toy: MakeToy) -> None:
    """And are measured."""
    result = open_tested_context(toy(), _shape(64))
    assert (64, 64, 0.0, 0) == (result.rows, result.micro_batch_rows, result.max_logit_error, result.argmax_flips)
    assert result.prefill_tokens_per_s > 0
    assert result.decode_s_per_token > 0


def test_kernels_that_are_wrong_in_large_batches_are_capped_at_31_rows(toy: MakeToy) -> None:
    """As ik_llama.cpp is with Q4_1."""
    kernels = toy(batch_noise=2.0)
    compute = kernels._compute
    # The toy computes a whole batch at once; a library splits it into micro-batches.
    kernels._compute = lambda history, sequence, rows: compute(
        history, sequence, min(rows, kernels._shape.micro_batch_rows) if kernels._shape.micro_batch_rows < 32 else rows
    )
    assert 31 == open_tested_context(kernels, _shape(64)).micro_batch_rows


def test_kernels_that_are_always_wrong_are_refused(toy: MakeToy) -> None:
    """A model that answers nonsense is worse than one that does not start."""
    with pytest.raises(LoadFailed, match="wrongly"):
        open_tested_context(toy(batch_noise=2.0), _shape(64))


def test_kernels_that_fail_are_refused(toy: MakeToy) -> None:
    """With the library's own words."""
    kernels = toy()
    kernels.fails = lambda _: True
    with pytest.raises(LoadFailed, match="told to fail"):
        open_tested_context(kernels, _shape(64))


def test_numbers_that_are_none_are_refused(toy: MakeToy) -> None:
    """NaN is not close to anything."""
    kernels = toy()
    kernels.not_numbers = {0}
    with pytest.raises(LoadFailed):
        open_tested_context(kernels, _shape(64))
