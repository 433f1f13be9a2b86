"""The model's own log-probabilities, as OpenAI and vLLM report them.

They are taken from the logits as the model gave them, before bias, penalties, grammar, temperature and truncation: they
say what the model thinks, whatever the request does with it, and a token that only a bias made possible has its true,
small value.
"""

import math
from typing import NamedTuple

import numpy as np

from embedded_engine.errors import BadNumerics
from embedded_engine.kernels.port import Logits
from embedded_engine.likelihoods import LOWEST_LOGPROB
from embedded_engine.sampling.distribution import likeliest

__all__ = ["RowLogprob", "row_logprob"]


class RowLogprob(NamedTuple):
    """What a row of logits says about one token, and of which tokens it thinks most.

    Attributes:
        token: The token.
        logprob: Its natural log-probability, at least `likelihoods.LOWEST_LOGPROB`; None where nothing precedes it.
        top: The likeliest tokens with theirs, likeliest first.
    """

    token: int
    logprob: float | None
    top: tuple[tuple[int, float], ...]


def row_logprob(logits: Logits, token: int, count: int) -> RowLogprob:
    """The log-probability of `token` and of the `count` likeliest tokens.

    Args:
        logits: The model's row, shape (vocabulary,).
        token: Any token.
        count: How many alternatives; `token` is among them only where it is that likely.

    Raises:
        BadNumerics: The row holds NaN or plus infinity, or rules every token out.
    """
    top = float(np.max(logits))
    if not math.isfinite(top):
        raise BadNumerics(f"the model's largest logit is {top}")
    shifted = logits - np.float32(top)
    log_total = top + math.log(float(np.sum(np.exp(shifted, out=shifted), dtype=np.float64)))
    best = likeliest(logits, count) if count else ()
    return RowLogprob(
        token=token,
        logprob=_floored(float(logits[token]) - log_total),
        top=tuple((int(other), _floored(float(logits[other]) - log_total)) for other in best),
    )


def _floored(logprob: float) -> float:
    return min(max(logprob, LOWEST_LOGPROB), 0.0)
