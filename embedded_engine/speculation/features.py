"""What the confidence heads look at."""

import math
from typing import NamedTuple

__all__ = ["FEATURES", "Guess", "log1p"]

FEATURES = (
    "one",
    "log match: how many tokens of the text agree with where the guess comes from",
    "share: of the times that its context was met, how often it followed",
    "log times: how often its context was met",
    "hits: how many of this source's last guesses for this choice were right",
    "agree: another source guesses the same",
    "differ: another source guesses something else",
    "log position in the draft",
    "markov: what the Markov table gives it",
    "markov of another: what the table gives its own likeliest token, where that is another",
    "strayed: in how many places of this draft so far something else was drafted than this source said",
    "recycled: the model said it, or thought of it, when it last was at this token",
    "temperature",
    "log match x share",
)

_LOG1P = tuple(math.log1p(n) for n in range(65))


def log1p(count: int) -> float:
    """log(1 + count), of a count that says nothing more beyond 64."""
    return _LOG1P[count] if count < len(_LOG1P) else _LOG1P[-1]


class Guess(NamedTuple):
    """What one source says comes next.

    Attributes:
        source: Its name.
        token: What it says.
        features: The values of `FEATURES`.
        confidence: How likely it is right, as its source's head thinks.
    """

    source: str
    token: int
    features: tuple[float, ...]
    confidence: float
