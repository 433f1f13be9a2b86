"""What is left of a row of logits once temperature, top-k, top-p and min-p have had their say, in that order.

Each step sees the probabilities of the one before, scaled to sum to one. Tokens of equal probability rank by their
number, the lower first. Everything is in 32 bits but the sums, and nothing is computed for tokens that a step before
has dropped: a row has 50,000 to 260,000 entries, and there is one for every token of every stream.
"""

import math

import numpy as np
from numpy.typing import NDArray

from embedded_engine.kernels.port import Logits
from embedded_engine.sampling.constraints import Tokens
from embedded_engine.sampling.parameters import Sampling

__all__ = ["COLDEST", "Distribution", "likeliest", "truncated"]

COLDEST = 1e-6
"""Lower temperatures count as 0: a quotient of 32-bit numbers would leave their range."""

_BLOCK = 256
"""Weights are first summed over so many neighbours: a row becomes a few hundred numbers."""

_GROUPED = 16
"""Logits are first compared in groups of so many: a row becomes a few thousand numbers."""

_FINER = 0.125
"""A nucleus is looked for among tokens of at least this fraction of the likeliest's weight, then of its square..."""

_TINIEST = 1e-30
"""Below this fraction of the likeliest's weight nothing adds up to anything."""

_Weights = NDArray[np.float32]


class Distribution:
    """Tokens and their weights, which need not sum to one; a token of weight 0 is never drawn.

    Args:
        weights: At least one of them positive.
        tokens: Which token each weight is of; None: weight i is token i's.
    """

    __slots__ = ("_block_ends", "_tokens", "_weights")

    def __init__(self, weights: _Weights, tokens: Tokens | None = None) -> None:
        self._weights = weights
        self._tokens = tokens
        whole = len(weights) - len(weights) % _BLOCK
        sums = np.add.reduce(weights[:whole].reshape(-1, _BLOCK), axis=1)
        self._block_ends = np.cumsum(np.append(sums, np.add.reduce(weights[whole:])), dtype=np.float64)

    def token_at(self, u: float) -> int:
        """The token where the distribution function, in the order of the weights, reaches `u` in [0, 1)."""
        target = _below(u * float(self._block_ends[-1]), float(self._block_ends[-1]))
        block = int(np.searchsorted(self._block_ends, target, side="right"))
        before = float(self._block_ends[block - 1]) if block else 0.0
        within = np.cumsum(self._weights[block * _BLOCK : (block + 1) * _BLOCK], dtype=np.float64)
        place = int(np.searchsorted(within, _below(target - before, float(within[-1])), side="right"))
        return self._token(block * _BLOCK + place)

    def law(self, vocabulary_tokens: int) -> NDArray[np.float64]:
        """The shares of all tokens."""
        law = np.zeros(vocabulary_tokens)
        law[slice(None) if self._tokens is None else self._tokens] = self._weights
        law /= law.sum()
        return law

    def probability(self, token: int) -> float:
        """The share of `token`."""
        if self._tokens is None:
            return float(self._weights[token]) / float(self._block_ends[-1])
        return float(np.sum(self._weights[self._tokens == token])) / float(self._block_ends[-1])

    def _token(self, index: int) -> int:
        return index if self._tokens is None else int(self._tokens[index])


def truncated(logits: Logits, tokens: Tokens | None, top: float, sampling: Sampling) -> Distribution:
    """The distribution to draw from, at a temperature of at least `COLDEST`.

    Args:
        logits: Minus infinity rules a token out.
        tokens: Which token each logit is of; None: logit i is token i's.
        top: The largest logit.
        sampling: The request's parameters.
    """
    kept, weights = _kept(logits, top, sampling)
    if kept is None:
        return Distribution(weights, tokens)
    return Distribution(weights, kept if tokens is None else tokens[kept])


def likeliest(logits: Logits, count: int) -> Tokens:
    """The places of the `count` largest logits, largest first, equal ones by number."""
    candidates = _candidates(logits, count)
    return candidates[np.argsort(-logits[candidates], kind="stable")[:count]]


def _kept(logits: Logits, top: float, sampling: Sampling) -> tuple[Tokens | None, _Weights]:
    """The places that may be drawn, None for all, and their weights; the likeliest weighs 1."""
    if sampling.top_k and sampling.top_k < len(logits):
        kept = likeliest(logits, sampling.top_k)
        weights = _weights(logits[kept], top, sampling.temperature)
        if sampling.top_p < 1:
            held = _nucleus(weights, sampling.top_p * float(np.sum(weights, dtype=np.float64)))
            kept, weights = kept[:held], weights[:held]
    elif sampling.top_p < 1:
        kept, weights = _likeliest_share(logits, top, sampling)
    elif sampling.min_p > 0:
        # A little below the limit: it is the weights that decide.
        floor = top + sampling.temperature * math.log(sampling.min_p) - 1e-3 * (1 + abs(top))
        kept = np.flatnonzero(logits >= np.float32(floor))
        weights = _weights(logits[kept], top, sampling.temperature)
    else:
        return None, _weights(logits, top, sampling.temperature)
    if sampling.min_p > 0:
        enough = weights >= np.float32(sampling.min_p)
        kept, weights = kept[enough], weights[enough]
    return kept, weights


def _likeliest_share(logits: Logits, top: float, sampling: Sampling) -> tuple[Tokens, _Weights]:
    """The likeliest places that together hold `top_p`, and their weights."""
    weights = _weights(logits, top, sampling.temperature)
    needed = sampling.top_p * float(np.sum(weights, dtype=np.float64))
    least = _FINER
    while True:
        heavy = np.flatnonzero(weights >= np.float32(least))
        if float(np.sum(weights[heavy], dtype=np.float64)) >= needed or len(heavy) == len(weights):
            break
        least = least * _FINER if least > _TINIEST else 0
    heavy = _ranked(heavy, weights[heavy])
    ranked = weights[heavy]
    held = _nucleus(ranked, needed)
    return heavy[:held], ranked[:held]


def _ranked(places: Tokens, weights: _Weights) -> Tokens:
    """`places`, which are in ascending order, by weight, the heaviest first, equal ones by number.

    Weights are not negative, so that their bits order as they do: with the place behind them they are sorted as whole
    numbers, several times as fast as by a stable sort.
    """
    keys = (~weights.view(np.uint32)).astype(np.uint64) << np.uint64(32) | places.astype(np.uint64)
    keys.sort()
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.intp)


def _nucleus(ranked: _Weights, needed: float) -> int:
    """How many of the ranked weights it takes to reach `needed`; more than there are where they don't."""
    return int(np.searchsorted(np.cumsum(ranked, dtype=np.float64), needed, side="left")) + 1


def _weights(logits: Logits, top: float, temperature: float) -> _Weights:
    scaled = logits - np.float32(top)
    if temperature != 1:
        scaled *= np.float32(1 / temperature)
    np.exp(scaled, out=scaled)
    return scaled


def _candidates(logits: Logits, count: int) -> Tokens:
    """Places, in ascending order, among which are the `count` largest logits and all that equal the last of them.

    The `count`-th largest of the groups' maxima bounds the `count`-th largest logit from below, at a fraction of the
    price of a partition of the whole row.
    """
    groups = len(logits) // _GROUPED
    if count >= len(logits):
        return np.arange(len(logits))
    if 2 * count <= groups:
        maxima = logits[: groups * _GROUPED].reshape(_GROUPED, groups).max(axis=0)
        bound = np.partition(maxima, groups - count)[groups - count]
    else:
        bound = np.partition(logits, len(logits) - count)[len(logits) - count]
    return np.flatnonzero(logits >= bound)


def _below(value: float, limit: float) -> float:
    """`value`, or the next number under `limit` where rounding took it there."""
    return min(value, math.nextafter(limit, 0))
