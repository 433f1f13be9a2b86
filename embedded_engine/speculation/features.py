"""What the confidence heads look at."""

import math
from typing import NamedTuple

__all__ = ["FEATURES", "Guess", "Moment", "features_of"]

FEATURES = (
    "one",
    "log match",
    "share",
    "log count",
    "recent hits",
    "others agree",
    "others differ",
    "log position",
    "markov",
    "markov of another",
    "strayed",
    "recycled",
    "temperature",
    "certainty",
    "match times share",
)

_LOG1P = tuple(math.log1p(n) for n in range(65))


class Guess(NamedTuple):
    """What one source says comes next.

    Attributes:
        source: Its name.
        token: What it says.
        share: See `Proposal.shares`.
        match: See `Proposal.match`.
        count: See `Proposal.times`.
        strayed: In how many places of this draft so far something else was drafted than this source said.
    """

    source: str
    token: int
    share: float
    match: int
    times: int
    strayed: int


class Moment(NamedTuple):
    """What all guesses for one place have in common.

    Attributes:
        position: 0 for the first drafted token.
        temperature: The request's.
        certainty: A running mean of the probabilities of what was emitted; 1 where the model is always sure.
        markov_token: The Markov table's likeliest token; -1: it has none.
        markov_probability: Its probability.
        recycled: What the model thought of, or said, when it last was at this token.
    """

    position: int
    temperature: float
    certainty: float
    markov_token: int
    markov_probability: float
    recycled: tuple[int, ...]


def features_of(
    guess: Guess, moment: Moment, *, markov: float, hits: float, agree: int, differ: int
) -> tuple[float, ...]:
    """The values of `FEATURES`.

    Args:
        guess: Whose.
        moment: When.
        markov: The Markov table's probability of the guessed token.
        hits: The share of this source's recent guesses for this choice that were right.
        agree: How many other sources guess the same.
        differ: How many guess something else.
    """
    log_match = _LOG1P[min(guess.match, 64)]
    return (
        1.0,
        log_match,
        guess.share,
        _LOG1P[min(guess.times, 64)],
        hits,
        float(agree > 0),
        float(differ > 0),
        _LOG1P[min(moment.position, 64)],
        markov,
        moment.markov_probability if moment.markov_token != guess.token else 0.0,
        float(min(guess.strayed, 3)),
        float(guess.token in moment.recycled),
        min(moment.temperature, 2.0),
        moment.certainty,
        log_match * guess.share,
    )
