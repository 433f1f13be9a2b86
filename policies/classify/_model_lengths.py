"""What is known of the answers of one model to one tenant, beyond what their features say."""

from bisect import bisect_left
from math import isfinite

from msgspec import Struct

from policies.classify._feature_weights import FeatureWeights
from policies.classify._length_prior import to_level
from policies.classify._lesson_pace import LessonPace
from policies.classify._residuals import Residuals, Spread

_P90_DEVIATIONS = 1.61
"""Where the 90th percentile of a double exponential distribution lies, in mean deviations."""

_FEWEST_STEP = 0.02
_MOST_LEVEL = 10.0
_ENOUGH = 64
_BAND_ENDS = (to_level(128), to_level(320))
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
        return Spread(self.center, self.center + self.deviation * _P90_DEVIATIONS)

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

    ``start`` is what was known of the model's residuals before. ``bands`` are the residuals again, apart by how long an
    answer was expected: short ones may turn out many times as long, long ones may not.
    """

    __slots__ = ("bands", "bytes_per_token", "pace", "residuals", "shift", "start", "weights")

    def __init__(self, start: Spread) -> None:
        self.start = start
        self.residuals = Residuals()
        self.bands = tuple(Residuals() for _ in range(len(_BAND_ENDS) + 1))
        self.shift = Shift()
        self.weights = FeatureWeights()
        self.pace = LessonPace()
        self.bytes_per_token: float | None = None

    def spread(self, level: float) -> Spread:
        """The residuals' quantiles at an expected level: those seen, and while they are few what was known before."""
        own, start, count = self.residuals.spread, self.start, self.residuals.count
        if count >= _ENOUGH:
            band = self._band(level + own.p50)
            return Spread(own.p50, max(band.spread.p90, own.p50)) if band.count >= _ENOUGH else own
        seen = count / (count + _START_WEIGHT)
        return Spread(start.p50 + seen * (own.p50 - start.p50), start.p90 + seen * (own.p90 - start.p90))

    def learn(self, level: float, residual: float, *, cut_short: bool) -> None:
        """Takes an answer in that was expected at ``level``; of one cut short, ``residual`` is a lower bound."""
        self._band(level + self.residuals.spread.p50).add(residual, cut_short=cut_short)
        self.residuals.add(residual, cut_short=cut_short)

    def _band(self, median: float) -> Residuals:
        return self.bands[bisect_left(_BAND_ENDS, median)]

    def learn_bytes_per_token(self, prompt_bytes: int, prompt_tokens: int, otherwise: float) -> None:
        """What the backend counted in a prompt; a count that cannot be moves little."""
        if prompt_bytes < _TELLING_PROMPT_BYTES or prompt_tokens <= 0:
            return
        seen = max(_BYTES_PER_TOKEN[0], min(prompt_bytes / prompt_tokens, _BYTES_PER_TOKEN[1]))
        known = self.bytes_per_token or otherwise
        self.bytes_per_token = known + _FIRST_BYTES_PER_TOKEN_WEIGHT * (seen - known)
