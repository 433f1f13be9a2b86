"""A test that may be looked at after every task, and stopped when it says something.

Each task is given to one of two arms by lot: to the canary with a chance of ``share``, else to the incumbent. Somebody
who says "the canary's mean of ``y`` is not higher" is bet against, task after task::

    wealth_n = mean over g of  product over the tasks of  1 + g x h x (y - m) / b
    h = 1 / share for the canary's tasks, -1 / (1 - share) for the incumbent's

``m`` is any guess of the mean of ``y`` made before the task, ``b`` the most that ``-h x (y - m)`` can be, ``g`` one of
a few fixed stakes. The expectation of ``h x (y - m)`` is the canary's mean less the incumbent's, so where that is not
above 0 no bet gains on average, and the chance that the wealth ever reaches ``1 / alpha`` is at most ``alpha`` (Ville's
inequality), however often one looks. Nothing is assumed of how ``y`` is distributed or how it drifts, but that verdicts
come in alike for both arms.

The bets are those of Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (JRSS B,
2024), on differences weighed by the chance of the lot as in Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro,
"Anytime-valid off-policy inference for contextual bandits" (2024).
"""

import math
from collections.abc import Sequence

STAKES = (0.05, 0.15, 0.3, 0.5, 0.8)
"""The parts of the wealth that are put at stake; who knew the best one would gain no more than five times as much."""


def bet(y: float, *, guess: float, lowest: float, highest: float, share: float, canary: bool) -> tuple[float, ...]:
    """The logarithms of what each stake's wealth is multiplied with by a task whose ``y`` is in the given bounds."""
    chance = share if canary else 1 - share
    gain = (min(max(y, lowest), highest) - guess) / chance * (1 if canary else -1)
    most_lost = max((guess - lowest) / share, (highest - guess) / (1 - share))
    return tuple([math.log1p(stake * gain / most_lost) for stake in STAKES])


def log_wealth(logs: Sequence[float]) -> float:
    """The logarithm of the wealth, from those of each stake's."""
    most = max(logs)
    return most + math.log(sum(math.exp(log - most) for log in logs) / len(logs))
