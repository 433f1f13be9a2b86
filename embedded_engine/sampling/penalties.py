"""Makes tokens less likely that have come before.

    repetition (Keskar et al. 2019, "CTRL", as in Hugging Face's transformers), over prompt and output:
        logit / penalty where the logit is positive, logit x penalty where it is negative
    frequency and presence (as OpenAI documents them), over the output alone:
        logit - count x frequency_penalty - (count > 0) x presence_penalty

Repetition comes first, then the other two. Only emitted tokens count: a drafted token that was not emitted never comes
here.
"""

from collections.abc import Sequence

import numpy as np

from embedded_engine.kernels.port import Logits
from embedded_engine.sampling.parameters import Sampling

__all__ = ["Penalties"]


class Penalties:
    """One choice's counts; `apply` costs in proportion to the distinct tokens, not to the vocabulary."""

    def __init__(self, sampling: Sampling, prompt: Sequence[int]) -> None:
        self._sampling = sampling
        distinct = np.unique(np.asarray(prompt, np.intp)) if sampling.repetition_penalty != 1 else np.empty(0, np.intp)
        self._places = {int(token): place for place, token in enumerate(distinct)}
        self._tokens = distinct
        self._counts = np.zeros(len(distinct), np.float32)

    @staticmethod
    def wanted(sampling: Sampling) -> bool:
        """Whether the request asks for any."""
        return sampling.repetition_penalty != 1 or sampling.presence_penalty != 0 or sampling.frequency_penalty != 0

    def advance(self, token: int) -> None:
        """`token` is emitted."""
        place = self._places.setdefault(token, len(self._places))
        if place >= len(self._tokens):
            room = max(64, len(self._tokens))
            self._tokens = np.append(self._tokens, np.zeros(room, np.intp))
            self._counts = np.append(self._counts, np.zeros(room, np.float32))
        self._tokens[place] = token
        self._counts[place] += 1

    def apply(self, logits: Logits) -> None:
        """Change `logits` in place."""
        used = len(self._places)
        tokens, counts, sampling = self._tokens[:used], self._counts[:used], self._sampling
        values = logits[tokens]
        if sampling.repetition_penalty != 1:
            penalty = np.float32(sampling.repetition_penalty)
            values = np.where(values > 0, values / penalty, values * penalty)
        values -= counts * np.float32(sampling.frequency_penalty)
        values -= (counts > 0) * np.float32(sampling.presence_penalty)
        logits[tokens] = values
