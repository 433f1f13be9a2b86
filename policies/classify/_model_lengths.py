"""What is known of the answers of one model to one tenant, beyond what their features say."""

from math import isfinite

from msgspec import Struct

from policies.classify._feature_weights import FeatureWeights
from policies.classify._residuals import Residuals, Spread

_DEVIATIONS = (0.0, 0.92, 1.61)
"""Of the mean deviation: the 50th, 80th and 90th percentile of a double exponential distribution."""

_FEWEST_STEP = 0.02
_MOST_LEVEL = 10.0
_ENOUGH = 64
_MOST_DEVIATION = 1.5
_START_WEIGHT = 3.0
"""What is known from elsewhere counts as so many answers."""

_FIRST_BYTES_PER_TOKEN_WEIGHT = 0.05
_BYTES_PER_TOKEN = (1.0, 8.0)
_TELLING_PROMPT_BYTES = 256


class Shift(Struct):
    """A running mean of residuals to the shipped formula, and of their distance from it: all that is ever shared."""

    count: int = 0
    center: float = 0.0
    deviation: float = 0.0

    def learn(self, residual: float) -> None:
        """Takes one in; of one far off, no more than one and a half is believed."""
        self.count += 1
        step = max(1 / (self.count + 2), _FEWEST_STEP)
        apart = max(-_MOST_DEVIATION, min(residual - self.center, _MOST_DEVIATION))
        self.center += step * apart
        self.deviation += step * (abs(apart) - self.deviation)

    def spread(self) -> Spread:
        """The quantiles that it stands for."""
        return Spread(*[self.center + self.deviation * place for place in _DEVIATIONS])

    def to_text(self) -> str:
        """As it is shared between replicas."""
        return f"{self.count} {self.center:.4f} {self.deviation:.4f}"

    @classmethod
    def from_text(cls, text: str) -> "Shift | None":
        """What ``to_text`` wrote; ``None`` where it is something else."""
        try:
            count, center, deviation = text.split()
            found = cls(count=int(count), center=float(center), deviation=float(deviation))
        except ValueError:
            return None
        sane = (
            isfinite(found.center)
            and abs(found.center) < _MOST_LEVEL
            and 0 <= found.deviation < _MOST_LEVEL
            and found.count > 0
        )
        return found if sane else None


class ModelLengths:
    """What one model's answers to one tenant have taught: weights of features, residuals, and the bytes of a token.

    ``start`` is what was known of the model's residuals before.
    """

    __slots__ = ("bytes_per_token", "residuals", "shift", "start", "weights")

    def __init__(self, start: Spread) -> None:
        self.start = start
        self.residuals = Residuals()
        self.shift = Shift()
        self.weights = FeatureWeights()
        self.bytes_per_token: float | None = None

    def spread(self) -> Spread:
        """The residuals' quantiles: those seen, and while they are few what was known before."""
        own, start, count = self.residuals.spread, self.start, self.residuals.count
        seen = count / (count + _START_WEIGHT)
        if count >= _ENOUGH:
            return own
        return Spread(
            p50=start.p50 + seen * (own.p50 - start.p50),
            p80=start.p80 + seen * (own.p80 - start.p80),
            p90=start.p90 + seen * (own.p90 - start.p90),
        )

    def learn_bytes_per_token(self, prompt_bytes: int, prompt_tokens: int, otherwise: float) -> None:
        """What the backend counted in a prompt; a count that cannot be moves little."""
        if prompt_bytes < _TELLING_PROMPT_BYTES or prompt_tokens <= 0:
            return
        seen = max(_BYTES_PER_TOKEN[0], min(prompt_bytes / prompt_tokens, _BYTES_PER_TOKEN[1]))
        known = self.bytes_per_token or otherwise
        self.bytes_per_token = known + _FIRST_BYTES_PER_TOKEN_WEIGHT * (seen - known)
