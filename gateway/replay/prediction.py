"""What the gateway believes a request will weigh, in a replay.

A policy's own classifier reads words. A trace of lengths has none, and to give it the true lengths would let the replay
know what no gateway can: it is then the running median of the model's answers, unless something else is asked for.
"""

import math
import random
from typing import Literal, Protocol, get_args

from gateway.forecast import Forecast
from gateway.ports import Classifier, Observer
from gateway.replay.scene import Scene
from gateway.replay.trace import TraceRequest
from gateway.rules import plugins

Prediction = Literal["policy", "median", "noisy", "oracle"]
PREDICTIONS: tuple[Prediction, ...] = get_args(Prediction)

NOISE = 0.8
"""The standard deviation of the noisy forecast's logarithm: half of its medians are within a factor of 1.7."""

_Z_P90 = 1.2816


class Predictor(Protocol):
    """Forecasts a request of a trace."""

    def forecast(self, traced: TraceRequest) -> Forecast:
        """What the request will weigh."""
        ...


class _Classified:
    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier

    def forecast(self, traced: TraceRequest) -> Forecast:
        return self._classifier.forecast(traced.request)


class _Known:
    """The true length, or that times a random factor whose median is 1."""

    def __init__(self, *, noise: float, seed: int) -> None:
        self._noise = noise
        self._rng = random.Random(seed)  # noqa: S311  # a replay is to come out the same every time

    def forecast(self, traced: TraceRequest) -> Forecast:
        p50 = traced.output_tokens * math.exp(self._rng.gauss(0, self._noise)) if self._noise else traced.output_tokens
        p90 = p50 * math.exp(_Z_P90 * self._noise)
        return Forecast(
            prompt_tokens=traced.prompt_tokens,
            output_tokens_p50=max(round(p50), 1),
            output_tokens_p90=max(round(p90), 1),
        )


def predictor(kind: Prediction, scene: Scene, *, seed: int) -> tuple[Predictor, tuple[Observer, ...]]:
    """The predictor of one gateway replica, and who learns from what it serves."""
    if kind == "policy":
        return _Classified(scene.route.classifier), scene.observers
    replaced = id(scene.route.classifier)
    others = tuple(observer for observer in scene.observers if id(observer) != replaced)
    if kind == "median":
        median = plugins.build("classify", "by_length", where="prediction")
        return _Classified(median), (*others, median)
    return _Known(noise=NOISE if kind == "noisy" else 0.0, seed=seed), others
