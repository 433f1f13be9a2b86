"""Rows of logits, requests, and the pipeline as plainly as it can be written."""

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import assume, currently_in_test_context

from embedded_engine.sampling.parameters import Sampling

_EDGE = 1e-5
"""Closer than this to a threshold, 32-bit and 64-bit arithmetic may differ."""


def _stay_clear(holds: bool) -> None:
    """Leave a made-up example that lies on an edge; a row that was given lies where it lies."""
    if currently_in_test_context():
        assume(holds)


def _penalised(
    logits: Sequence[float], sampling: Sampling, prompt: Sequence[int], emitted: Sequence[int]
) -> list[float]:
    """Bias, then the three penalties."""
    values, counts = list(map(float, logits)), Counter(emitted)
    for token, bias in sampling.logit_bias:
        values[token] += bias
    for token in {*prompt, *emitted}:
        penalty = sampling.repetition_penalty
        values[token] = values[token] / penalty if values[token] > 0 else values[token] * penalty
    return [
        value - counts[token] * sampling.frequency_penalty - (counts[token] > 0) * sampling.presence_penalty
        for token, value in enumerate(values)
    ]


def _truncated(values: Sequence[float], sampling: Sampling) -> dict[int, float]:
    """Temperature, top-k, top-p, min-p; every step sees the shares of the one before."""
    top = max(values)
    if sampling.temperature == 0:
        _stay_clear(all(value == top or top - value > _EDGE for value in values))
        return {values.index(top): 1.0}
    weights = [math.exp((value - top) / sampling.temperature) for value in values]
    ranked = sorted(
        (token for token, weight in enumerate(weights) if weight), key=lambda token: (-values[token], token)
    )
    if sampling.top_k:
        border = [values[token] for token in ranked[sampling.top_k - 1 : sampling.top_k + 1]]
        _stay_clear(len(border) < 2 or border[0] == border[1] or border[0] - border[1] > _EDGE)
        ranked = ranked[: sampling.top_k]
    total, kept, cumulative = sum(weights[token] for token in ranked), [], 0.0
    for token in ranked:
        _stay_clear(sampling.top_p == 1 or abs(cumulative / total - sampling.top_p) > _EDGE)
        if sampling.top_p == 1 or cumulative / total < sampling.top_p:
            kept.append(token)
        cumulative += weights[token]
    _stay_clear(all(abs(weights[token] - sampling.min_p) > _EDGE or sampling.min_p == 0 for token in kept[1:]))
    kept = [token for token in kept if weights[token] >= sampling.min_p or token == ranked[0]]
    total = sum(weights[token] for token in kept)
    return {token: weights[token] / total for token in kept}


@pytest.fixture(scope="session")
def reference() -> Callable[..., dict[int, float]]:
    """p~ in 64 bits, from the model's logits and what was said before; `allowed` is what a grammar leaves."""

    def compute(
        logits: Sequence[float],
        sampling: Sampling,
        *,
        prompt: Sequence[int] = (),
        emitted: Sequence[int] = (),
        allowed: Sequence[int] | None = None,
    ) -> dict[int, float]:
        values = _penalised(logits, sampling, prompt, emitted)
        for token in {*prompt, *emitted}:  # rounded in both: which of two near ones ranks first is nobody's promise
            others = (abs(value - values[token]) for other, value in enumerate(values) if other != token)
            _stay_clear(min(others, default=1) > _EDGE)
        if allowed is not None:
            values = [value if token in allowed else -math.inf for token, value in enumerate(values)]
        return _truncated(values, sampling)

    return compute


@pytest.fixture(scope="session")
def real_rows() -> np.ndarray:
    """Rows that look like a model's: a few tall entries over a wide bell, shape (8, 49152)."""
    places = np.arange(8 * 49152, dtype=np.uint64)
    shares = ((places * np.uint64(2654435761) % np.uint64(2**32)).astype(np.float64) + 0.5) / 2**32
    rows = (1.4 * np.log(shares / (1 - shares))).reshape(8, 49152)  # made by arithmetic: the same in every release
    rows[:, :40] += np.linspace(18, 4, 40)
    return rows.astype(np.float32)
