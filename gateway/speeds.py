"""How fast a model reads and writes at a backend, learned from the times of our own attempts there."""

from math import exp, inf, log

_FIRST_PREFILL_TOKENS_PER_S = 1000.0
"""A slow guess on purpose: four times too slow costs next to nothing, twice too fast a fifth of the time."""

_ATTENTION_TOKENS = 50_000.0
"""Reading slows down with what stands before: at this depth by half as much again. Models of 8 to 70 billion
parameters lie between 30,000 and 55,000 (twice the parameters, by four times layers times width)."""

_PRIOR_TOKENS = 6000.0
"""What the first guess weighs, in tokens that were read."""

_FADING_PROMPT = 0.98
"""Of the weight of all prompts that were read, at every new one: about the last fifty count."""

_MOST_STRETCH = 8.0
"""Of one reading no more than this multiple of what was expected is believed: a stall says little about speed."""


class PrefillSpeed:
    """Seconds of reading: ``slowness x fresh x (1 + (warm + fresh / 2) / 50,000)``, the fresh tokens behind the warm.

    The slowness is a ratio of two sums, seconds over tokens, of which the old fades. Prompts that were read side by
    side, whose first tokens come at once, are then neither taken for fast nor for slow.
    """

    __slots__ = ("_read_tokens", "_seconds", "slowness_s")

    def __init__(self) -> None:
        self._read_tokens = _PRIOR_TOKENS
        self._seconds = _PRIOR_TOKENS / _FIRST_PREFILL_TOKENS_PER_S
        self.slowness_s = 1 / _FIRST_PREFILL_TOKENS_PER_S

    def seconds(self, fresh_tokens: float, warm_tokens: float) -> float:
        """How long it reads ``fresh_tokens`` that stand behind ``warm_tokens``."""
        return self.slowness_s * fresh_tokens * (1 + (warm_tokens + fresh_tokens / 2) / _ATTENTION_TOKENS)

    def learn(self, fresh_tokens: float, warm_tokens: float, seconds: float) -> None:
        """Reading that took ``seconds``, from when it could begin to the first token."""
        tokens = fresh_tokens * (1 + (warm_tokens + fresh_tokens / 2) / _ATTENTION_TOKENS)
        self._read_tokens = self._read_tokens * _FADING_PROMPT + tokens
        self._seconds = self._seconds * _FADING_PROMPT + min(seconds, _MOST_STRETCH * tokens * self.slowness_s)
        self.slowness_s = self._seconds / self._read_tokens


_FIRST_SECONDS_PER_TOKEN = 0.03
_TOKENS_PER_SEQUENCE = 7000.0
"""So many tokens in the cache slow a step down as much as one more sequence does."""

_PRIOR_ANSWERS = 4.0
_PRIOR_SLOPE = 0.01
"""What one more sequence adds to a step, as a share of it, until it is known: little, as on a graphics card."""

_FADING_ANSWER = 0.99
"""Of the weight of all answers that were seen, at every new one: about the last hundred count."""


_LEAST_VARIANCE = 1e-9


class DecodeSpeed:
    """Seconds of one step, in which each sequence gets a token: ``base + slope x load``.

    The load is the number of sequences, and one more for every 7,000 tokens that they hold. A straight line through
    what was seen, old answers fading, by least squares; it never falls, and never below zero.
    """

    __slots__ = ("_answers", "_base", "_load", "_load_load", "_load_step", "_slope", "_step")

    def __init__(self) -> None:
        # As if a few answers had been seen, half of them alone and half of them in a crowd of sixty-four.
        guess, crowd = _FIRST_SECONDS_PER_TOKEN, 64.0
        self._answers = self._load = self._step = self._load_load = self._load_step = 0.0
        for load in (1.0, crowd):
            self._add(load, guess * (1 + _PRIOR_SLOPE * (load - 1)), _PRIOR_ANSWERS / 2)
        self._base = self._slope = 0.0
        self._fit()

    def seconds_per_token(self, sequences: float, kv_tokens: float) -> float:
        """What each of ``sequences`` sees between two of its tokens, while they hold ``kv_tokens``."""
        return self._base + self._slope * (sequences + kv_tokens / _TOKENS_PER_SEQUENCE)

    def learn(self, sequences: float, kv_tokens: float, seconds_per_token: float) -> None:
        """An answer was written at ``seconds_per_token``, on average beside so many others."""
        self._answers *= _FADING_ANSWER
        self._load *= _FADING_ANSWER
        self._step *= _FADING_ANSWER
        self._load_load *= _FADING_ANSWER
        self._load_step *= _FADING_ANSWER
        self._add(sequences + kv_tokens / _TOKENS_PER_SEQUENCE, seconds_per_token, 1.0)
        self._fit()

    def _add(self, load: float, step_s: float, weight: float) -> None:
        self._answers += weight
        self._load += weight * load
        self._step += weight * step_s
        self._load_load += weight * load * load
        self._load_step += weight * load * step_s

    def _fit(self) -> None:
        mean_load, mean_step = self._load / self._answers, self._step / self._answers
        variance = self._load_load / self._answers - mean_load * mean_load
        covariance = self._load_step / self._answers - mean_load * mean_step
        steepest = mean_step / mean_load if mean_load > 0 else 0.0
        self._slope = min(max(covariance / variance, 0.0), steepest) if variance > _LEAST_VARIANCE else 0.0
        self._base = max(mean_step - self._slope * mean_load, 1e-6)


_QUANTILES = (0.5, 0.9)
_STEP = 0.05


class Stretch:
    """How much longer things take than was forecast: running quantiles of the ratio, in steps of 5 % each.

    Stochastic approximation (Robbins and Monro, 1951) on the logarithm: no samples are kept.
    """

    __slots__ = ("_p50", "_p90")

    def __init__(self) -> None:
        self._p50, self._p90 = 0.0, log(2.0)

    @property
    def p50(self) -> float:
        """The factor that half stay under."""
        return exp(self._p50)

    @property
    def p90(self) -> float:
        """The factor that nine of ten stay under; never below the median's."""
        return exp(max(self._p90, self._p50))

    def learn(self, forecast_s: float, actual_s: float) -> None:
        """Something that was forecast to take ``forecast_s`` took ``actual_s``."""
        if not (0 < forecast_s < inf and 0 < actual_s < inf):
            return
        ratio = min(max(log(actual_s) - log(forecast_s), -3.0), 3.0)
        self._p50 += _STEP * (_QUANTILES[0] - (ratio <= self._p50))
        self._p90 += _STEP * (_QUANTILES[1] - (ratio <= self._p90))
