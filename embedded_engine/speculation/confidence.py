"""How likely a drafted token is right: one logistic regression for each source, over a few cheap features.

It learns from every token that the model emits. Each source that had something to say for that place is judged on it,
drafted or not, so nothing has to be tried out; the label is p~ of the token where the rows were computed, else whether
it was the one. A damped Newton step over the recent examples, every 100 of them, follows the text:

    w += n / (n + 50) (H + r)^-1 (g - r (w - w_0))

with g and H the gradient and the Hessian of the log likelihood of n examples, w_0 the weights it was built with, and r
the ridge. Weights hold nothing of anybody's text: they are the same for all scopes.
"""

import math
from collections.abc import Sequence
from operator import mul

import numpy as np

__all__ = ["ConfidenceHead"]

_REFIT_EVERY = 100
_REMEMBERED = 1_000
_RIDGE = 1e-3
_DAMPING = 50
_SUREST = 0.999


class ConfidenceHead:
    """One source's.

    Args:
        weights: To begin with, one for each feature.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        self.weights = list(weights)
        self._first_weights = np.array(weights)
        self._features: list[Sequence[float]] = []
        self._labels: list[float] = []
        self._new = 0

    def confidence(self, features: Sequence[float]) -> float:
        """The chance that the token is right."""
        logit = sum(map(mul, self.weights, features))
        return _SUREST / (1.0 + math.exp(-logit)) if logit > -30 else 0.0  # noqa: PLR2004 - e^30 is as good as infinite

    def learn(self, features: Sequence[float], label: float) -> None:
        """The token's probability, or whether it was right, turned out."""
        self._features.append(features)
        self._labels.append(label)
        self._new += 1
        if self._new >= _REFIT_EVERY:
            self._refit()

    def _refit(self) -> None:
        self._new = 0
        del self._features[:-_REMEMBERED], self._labels[:-_REMEMBERED]
        x, y = np.array(self._features), np.array(self._labels)
        n, w = len(y), np.array(self.weights)
        p = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
        ridge = _RIDGE * n
        gradient = x.T @ (y - p) - ridge * (w - self._first_weights)
        hessian = (x * (p * (1 - p))[:, None]).T @ x + ridge * np.eye(len(w))
        w += n / (n + _DAMPING) * np.linalg.solve(hessian, gradient)
        if np.isfinite(w).all():
            self.weights = [float(value) for value in w]
