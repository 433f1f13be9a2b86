"""Draws the next token.

The order of the steps is fixed: temperature, then top-k, then top-p over what top-k left, then min-p, then one draw.
Each step sees the probabilities of the one before, scaled to sum to one. Tokens of equal probability rank by their
number, the lower first.

The draw inverts the distribution function at a number u that depends on nothing but (seed, choice, position): a
counter-based generator, so that a token does not depend on which other requests ran beside it or on how often anybody
drew.
"""

import struct
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from embedded_engine.errors import BadNumerics
from embedded_engine.kernels.port import Logits
from embedded_engine.sampling.parameters import Sampling

__all__ = ["Sampling", "draw", "uniform"]

_COUNTER = struct.Struct("<QQQ")
_COLDEST = 1e-6
"""Lower temperatures count as 0: a quotient of 32-bit numbers would leave their range."""

_FIRST_LOOK = 256
"""Top-p first looks at so many of the likeliest tokens.

They nearly always hold enough, and sorting 49k takes milliseconds.
"""


def draw(logits: Logits, sampling: Sampling, *, choice: int, position: int) -> int:
    """The next token.

    Args:
        logits: Shape (vocabulary,); minus infinity rules a token out.
        sampling: The request's parameters.
        choice: Which of the request's choices.
        position: How many tokens of the choice were drawn before.

    Raises:
        BadNumerics: The logits hold NaN or plus infinity, or rule every token out.
    """
    likeliest = int(np.argmax(logits))
    top = float(logits[likeliest])  # argmax stops at a NaN where there is one
    if not np.isfinite(top):
        raise BadNumerics(f"the model's largest logit is {top}")
    if sampling.temperature < _COLDEST:
        return likeliest
    tokens, weights = _kept(logits, top, sampling)
    if len(tokens) == 1:
        return int(tokens[0])
    cumulative = np.cumsum(weights, dtype=np.float64)
    index = np.searchsorted(cumulative, uniform(sampling.seed, choice, position) * cumulative[-1], side="right")
    return int(tokens[min(int(index), len(tokens) - 1)])


def uniform(seed: int, choice: int, position: int) -> float:
    """A number in [0, 1), a function of its arguments alone: the top 53 bits of their keyed hash."""
    digest = blake2b(_COUNTER.pack(seed & (2**64 - 1), choice, position), digest_size=8, person=b"headrace").digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53


def _kept(logits: Logits, top: float, sampling: Sampling) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The tokens that may be drawn, likeliest first (by number where nothing asks for ranks), and their weights."""
    weights = np.exp((logits - np.float32(top)) / np.float32(sampling.temperature))
    if sampling.top_k:
        tokens = _ranked(weights, sampling.top_k)
        if sampling.top_p < 1:
            tokens = _nucleus(weights, tokens, sampling.top_p * float(np.sum(weights[tokens], dtype=np.float64)))
    elif sampling.top_p < 1:
        needed, look = sampling.top_p * float(np.sum(weights, dtype=np.float64)), _FIRST_LOOK
        tokens = _ranked(weights, look)
        while look < len(weights) and float(np.sum(weights[tokens], dtype=np.float64)) < needed:
            look *= 16
            tokens = _ranked(weights, look)
        tokens = _nucleus(weights, tokens, needed)
    else:
        tokens = np.arange(len(weights))
    kept = weights[tokens]
    enough = kept >= np.float32(sampling.min_p)  # the likeliest weighs exactly 1
    return tokens[enough], kept[enough]


def _nucleus(weights: NDArray[np.float32], ranked: NDArray[np.int64], needed: float) -> NDArray[np.int64]:
    """The shortest beginning of `ranked` that weighs at least `needed`; all of it where none does."""
    cumulative = np.cumsum(weights[ranked], dtype=np.float64)
    return ranked[: int(np.searchsorted(cumulative, needed, side="left")) + 1]


def _ranked(weights: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """The `count` heaviest tokens, heaviest first, equal ones by number."""
    if count < len(weights):
        threshold = np.partition(weights, len(weights) - count)[len(weights) - count]
        candidates = np.flatnonzero(weights >= threshold)
    else:
        candidates = np.arange(len(weights))
    order = np.argsort(-weights[candidates], kind="stable")
    return candidates[order[:count]]
