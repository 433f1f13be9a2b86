"""Finds out at load whether the kernels compute this model the same way alone and in a batch, and how fast.

Libraries have shipped kernels that give garbage for some quantisation once a micro-batch has 32 rows or more
(ik_llama.cpp 0.1.5 with Q4_1), without an error. So the same rows are decoded in one batch and one by one; where the
logits are far apart the micro-batch is capped at 31 rows, and where that does not help the model is refused.
"""

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from embedded_engine.errors import LoadFailed
from embedded_engine.kernels.port import ContextShape, DecodeError, Kernels, Row
from embedded_engine.messages import SelfTest

__all__ = ["open_tested_context"]

_ROWS = 64
_SAFE_MICRO_BATCH = 31
_TEXT = """A headrace is the channel that leads water from a river or a pond to the wheel of a mill. The miller opens a
gate when there is corn to grind, and closes it when the pond runs low. In dry summers he waits for the night, lets the
pond fill, and grinds in the morning. Below the wheel the tailrace carries the water back to the river, slower than it
came."""

_MAX_RELATIVE_ERROR = 0.4
"""Of the logits' standard deviation, root mean square over a row: sound kernels stay under .15, broken ones pass 1."""

_Matrix = NDArray[np.float32]


def open_tested_context(kernels: Kernels, shape: ContextShape) -> SelfTest:
    """Open a context of `shape` whose batches agree with single rows, and measure it.

    Raises:
        LoadFailed: The kernels compute this model wrongly whatever the micro-batch.
    """
    rows = min(_ROWS, shape.batch_rows, shape.kv_tokens)
    for micro_batch in (shape.micro_batch_rows, min(_SAFE_MICRO_BATCH, shape.micro_batch_rows)):
        kernels.open_context(replace(shape, micro_batch_rows=micro_batch))
        try:
            alone, decode_s = _one_by_one(kernels, rows)
            together, prefill_s = _in_one_batch(kernels, rows)
        except DecodeError as error:
            raise LoadFailed(f"the self-test failed: {error}") from error
        if _relative_error(alone, together) <= _MAX_RELATIVE_ERROR:
            return SelfTest(
                rows=rows,
                max_logit_error=float(np.max(np.abs(alone - together))),
                argmax_flips=int(np.sum(np.argmax(alone, axis=1) != np.argmax(together, axis=1))),
                micro_batch_rows=micro_batch,
                prefill_tokens_per_s=rows / prefill_s,
                decode_s_per_token=decode_s,
            )
    raise LoadFailed(f"{kernels.name} computes this model wrongly: logits of a batch are not those of single rows")


def _tokens(kernels: Kernels, count: int) -> list[int]:
    """The tokens of plain text: on noise a model is so unsure that sound kernels differ much."""
    tokens = kernels.tokenize(_TEXT, add_special=True, parse_special=False)
    return (tokens * count)[:count]


def _one_by_one(kernels: Kernels, count: int) -> tuple[_Matrix, float]:
    """Logits, shape (count, vocabulary), and the median seconds of one decode."""
    logits, seconds = [], []
    for position, token in enumerate(_tokens(kernels, count)):
        started_s = time.perf_counter()
        kernels.decode([Row(0, token, position, wants_logits=True)])
        logits.append(kernels.logits(0).copy())
        seconds.append(time.perf_counter() - started_s)
    kernels.remove(0)
    return np.stack(logits), float(np.median(seconds))


def _in_one_batch(kernels: Kernels, count: int) -> tuple[_Matrix, float]:
    """Logits, shape (count, vocabulary), and the seconds of one decode that wants the last row only, as prompts do."""
    tokens = _tokens(kernels, count)
    started_s = time.perf_counter()
    kernels.decode([Row(0, token, position, position == count - 1) for position, token in enumerate(tokens)])
    kernels.logits(count - 1)
    seconds = time.perf_counter() - started_s
    kernels.remove(0)
    kernels.decode([Row(0, token, position, wants_logits=True) for position, token in enumerate(tokens)])
    logits = np.stack([kernels.logits(row) for row in range(count)])
    kernels.remove(0)
    return logits, seconds


def _relative_error(alone: _Matrix, together: _Matrix) -> float:
    """The worst row's root mean square difference, in standard deviations of its logits.

    Not a number counts as infinite.
    """
    errors = np.sqrt(np.mean(np.square(alone - together), axis=1)) / np.maximum(np.std(alone, axis=1), 1e-6)
    worst = float(np.max(errors))
    return worst if np.isfinite(worst) else float("inf")
