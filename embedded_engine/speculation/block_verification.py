"""Block verification: how a draft that was itself sampled is accepted without changing the distribution.

Z. Sun et al., "Block Verification Accelerates Speculative Decoding", ICLR 2025, algorithm 2. With p~ the target's and q
the draft's distributions along the block x_1 to x_k, as they were when each token was drawn:

    P_0 = 1,  P_i = min(P_{i-1} p~(x_i) / q(x_i), 1)
    s_i = sum_v max(P_i p~_{i+1}(v) - q_{i+1}(v), 0),  h_i = s_i / (s_i + 1 - P_i),  h_k = P_k
    tau = the largest i with u_i <= h_i
    the next token ~ norm(max(P_tau p~_{tau+1} - q_{tau+1}, 0)), and p~_{k+1} itself if tau = k

It accepts at least as many tokens in expectation as judging token by token. Three things must hold, or the distribution
is another one: q is the very distribution that the token was drawn from (not a sharpened or truncated relative of it);
the uniforms of drafting, of accepting and of the next token are independent; and k does not depend on the tokens it
cuts off.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Verdict", "acceptance", "residual", "verify_block"]

Distribution = NDArray[np.float64]


class Verdict(NamedTuple):
    """The first `accepted` drafted tokens stand, and `token` follows them."""

    accepted: int
    token: int


def verify_block(
    drafted: Sequence[int],
    targets: Sequence[Distribution],
    drafts: Sequence[Distribution],
    *,
    accept: Sequence[float],
    choose: float,
) -> Verdict:
    """Judge a sampled block.

    Args:
        drafted: x_1 to x_k.
        targets: p~_1 to p~_{k+1}, each of sum 1; p~_i is conditional on x_1 to x_{i-1}.
        drafts: q_1 to q_k, likewise; q_i(x_i) > 0.
        accept: k uniforms from [0, 1).
        choose: One more, for the token after the accepted ones.
    """
    carried, chances = acceptance(drafted, targets, drafts)
    accepted = max((i for i, chance in enumerate(chances) if i == 0 or accept[i - 1] < chance), default=0)
    return Verdict(accepted, _invert(residual(accepted, carried, targets, drafts), choose))


def acceptance(
    drafted: Sequence[int], targets: Sequence[Distribution], drafts: Sequence[Distribution]
) -> tuple[list[float], list[float]]:
    """P_0 to P_k, and h_0 to h_k; h_0 is 1, since nothing accepted is always possible."""
    carried, chances = [1.0], [1.0]
    last = len(drafted)
    for i, token in enumerate(drafted, start=1):
        ratio = float(targets[i - 1][token] / drafts[i - 1][token])
        carried.append(min(carried[-1] * ratio, 1.0))
        if i == last:
            chances.append(carried[i])
        else:
            left = float(np.maximum(carried[i] * targets[i] - drafts[i], 0).sum())
            whole = left + 1 - carried[i]
            chances.append(left / whole if whole > 0 else 1.0)
    return carried, chances


def residual(
    accepted: int, carried: Sequence[float], targets: Sequence[Distribution], drafts: Sequence[Distribution]
) -> Distribution:
    """The distribution of the token after `accepted` accepted ones."""
    if accepted == len(drafts):
        return targets[accepted]
    left = np.maximum(carried[accepted] * targets[accepted] - drafts[accepted], 0)
    total = left.sum()
    # Nothing is left over where the two agree to the last bit: then the rest is never asked for, but by rounding.
    return left / total if total > 0 else targets[accepted]


def _invert(distribution: Distribution, u: float) -> int:
    cumulative = np.cumsum(distribution)
    index = int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))
    return min(index, int(np.flatnonzero(distribution)[-1]))
