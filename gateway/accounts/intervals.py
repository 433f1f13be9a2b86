"""How sure a figure of the report is: 95 % intervals."""

import math
from statistics import NormalDist

Z95 = NormalDist().inv_cdf(0.975)

Interval = tuple[float, float]


def wilson(successes: int, n: int) -> Interval | None:
    """Wilson's score interval of a rate; ``None`` of nothing.

    ::

        (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)

    E. B. Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 22 (1927).
    """
    if n <= 0:
        return None
    p, z2 = successes / n, Z95 * Z95
    middle = p + z2 / (2 * n)
    half = Z95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max((middle - half) / (1 + z2 / n), 0.0), min((middle + half) / (1 + z2 / n), 1.0)


def ratio(n: int, sum_c: float, sum_s: float, sum_cc: float, sum_cs: float, sum_ss: float) -> Interval | None:
    """An interval of ``R = sum_c / sum_s`` over ``n`` pairs: the delta method, on the scale of factors.

    ::

        se(log R) = sqrt(n / (n - 1) x sum (c - R s)^2) / sum_c,    R x exp(-+ z se)

    The linearised variance of a ratio of means: W. G. Cochran, Sampling Techniques (1977), chapter 6. On the scale of
    factors, since a cost is never negative and a few dear tasks stretch it upwards. ``None`` where there are fewer than
    two pairs, no success, or no cost.
    """
    if n < 2 or sum_s <= 0 or sum_c <= 0:  # noqa: PLR2004  # one has no spread
        return None
    r = sum_c / sum_s
    squares = max(sum_cc - 2 * r * sum_cs + r * r * sum_ss, 0.0)
    width = math.exp(Z95 * math.sqrt(n / (n - 1) * squares) / sum_c)
    return r / width, r * width
