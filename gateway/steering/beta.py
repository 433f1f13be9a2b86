"""The beta distribution: what a share may be, after some successes and some failures."""

import math
from functools import lru_cache

_TINY = 1e-300
_CLOSE = 1e-10
_MOST_TERMS = 300
_MOST_STEPS = 60
_DIGITS = 6


def mean(successes: float, failures: float) -> float:
    """The expected share; both are counts above 0, not necessarily whole ones."""
    return successes / (successes + failures)


def below(share: float, successes: float, failures: float) -> float:
    """The chance that the share is below ``share``: the regularised incomplete beta function.

    By its continued fraction (DLMF 8.17.22), evaluated from the front (Lentz's method).
    """
    if share <= 0:
        return 0.0
    if share >= 1:
        return 1.0
    front = math.exp(
        math.lgamma(successes + failures)
        - math.lgamma(successes)
        - math.lgamma(failures)
        + successes * math.log(share)
        + failures * math.log1p(-share)
    )
    if share < (successes + 1) / (successes + failures + 2):  # where the fraction converges fast
        return front * _fraction(successes, failures, share) / successes
    return 1 - front * _fraction(failures, successes, 1 - share) / failures


def interval(successes: float, failures: float, confidence: float) -> tuple[float, float]:
    """The two shares that it is below, and above, with a chance of ``confidence`` each.

    Counts are rounded to six digits: up to a million tasks a bound moves by less than a thousandth of its distance from
    the mean.
    """
    return _interval(_rounded(successes), _rounded(failures), confidence)


@lru_cache(maxsize=8192)
def _interval(successes: float, failures: float, confidence: float) -> tuple[float, float]:
    low, high = _quantile(1 - confidence, successes, failures), _quantile(confidence, successes, failures)
    return min(low, high), high  # at a chance of a half both are one share, and each is found from its own side


def _quantile(chance: float, successes: float, failures: float) -> float:
    """The share that it is below with a chance of ``chance``: Newton's method, kept between two bounds."""
    low, high, share = 0.0, 1.0, mean(successes, failures)
    scale = math.lgamma(successes + failures) - math.lgamma(successes) - math.lgamma(failures)
    for _ in range(_MOST_STEPS):
        off = below(share, successes, failures) - chance
        low, high = (share, high) if off < 0 else (low, share)
        density = math.exp(scale + (successes - 1) * math.log(share) + (failures - 1) * math.log1p(-share))
        step = share - off / density if density > _TINY else low
        following = step if low < step < high else (low + high) / 2
        if abs(following - share) <= _CLOSE * share or not 0 < following < 1:
            return share
        share = following
    return share


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function."""
    above, under = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    value = under
    for m in range(1, _MOST_TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            under = 1 / _away_from_zero(1 + term * under)
            above = _away_from_zero(1 + term / above)
            value *= under * above
        if abs(under * above - 1) < _CLOSE:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _rounded(count: float) -> float:
    return float(f"{count:.{_DIGITS}g}")
