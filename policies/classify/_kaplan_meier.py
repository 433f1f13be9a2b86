"""Quantiles of observations of which some were cut short."""

from collections.abc import Sequence
from typing import TypeVar

Number = TypeVar("Number", int, float)

_ROUNDING = 1e-9


def quantiles(observed: Sequence[tuple[Number, bool]], levels: Sequence[float]) -> list[Number]:
    """The quantiles at ``levels`` by the Kaplan-Meier estimate, from ascending pairs of value and cut short.

    The share that is longer than each value falls only at whole observations; those cut short leave the ranks of what
    could still end, and nothing more. Where the share never falls far enough, the largest value seen is the best lower
    bound there is. Of equal values the whole ones sort first, as the estimate wants.

    Reference: Kaplan and Meier, "Nonparametric estimation from incomplete observations" (1958).
    """
    found: list[Number] = []
    longer, count = 1.0, len(observed)
    for position, (value, cut_short) in enumerate(observed):
        if cut_short:
            continue
        longer *= 1 - 1 / (count - position)
        while len(found) < len(levels) and longer <= 1 - levels[len(found)] + _ROUNDING:
            found.append(value)
        if len(found) == len(levels):
            return found
    return found + [observed[-1][0]] * (len(levels) - len(found))
