"""How fast a model reads and writes at a backend, learned from the times of our own attempts there."""

from math import exp, inf, log

from msgspec import Struct

_FIRST_PREFILL_TOKENS_PER_S = 1000.0
"""A slow guess on purpose: four times too slow costs next to nothing, twice too fast a fifth of the time."""

ATTENTION_TOKENS = 50_000.0
"""Reading slows down with what stands before: at this depth by half as much again. Models of 8 to 70 billion
parameters lie between 30,000 and 55,000 (twice the parameters, by four times layers times width)."""

_PRIOR_TOKENS = 6000.0
"""What a first guess weighs, in tokens that were read."""

_ALIKE = 0.85
"""Backends whose speeds for a model are within this factor of all others' are taken for equally fast. Differences that
small are mostly chance, and following them would send everything to whoever was lucky."""

_FADING_PROMPT = 0.98
"""Of the weight of all prompts that were read, at every new one: about the last fifty count."""

_MOST_STRETCH = 8.0
"""Of one reading no more than this multiple of what was expected is believed: a stall says little about speed."""


class PrefillSpeed:
    """Seconds of reading: ``slowness x fresh x (1 + (warm + fresh / 2) / 50,000)``, the fresh tokens behind the warm.

    The slowness, ``slowness_s``, is a ratio of two sums, seconds over tokens, of which the old fades. Prompts that were
    read side by side, whose first tokens come at once, are then neither taken for fast nor for slow.

    Args:
        pool: the speed of all backends for the same model. Who has not been seen yet is taken for one of them, so that
            nobody is left alone for being unknown.
    """

    __slots__ = ("_guess_tokens", "_members", "_pool", "_read_tokens", "_seconds", "slowness_s")

    def __init__(self, pool: "PrefillSpeed | None" = None) -> None:
        self.slowness_s: float = pool.slowness_s if pool is not None else 1 / _FIRST_PREFILL_TOKENS_PER_S
        self._members: list[PrefillSpeed] = []
        self._pool = pool
        self._read_tokens = self._seconds = 0.0
        self._guess_tokens = _PRIOR_TOKENS
        if pool is not None:
            pool._members.append(self)  # noqa: SLF001  # its own kind

    def seconds(self, fresh_tokens: float, warm_tokens: float) -> float:
        """How long it reads ``fresh_tokens`` that stand behind ``warm_tokens``."""
        return self.slowness_s * fresh_tokens * (1 + (warm_tokens + fresh_tokens / 2) / ATTENTION_TOKENS)

    def learn(self, fresh_tokens: float, warm_tokens: float, seconds: float) -> None:
        """Reading that took ``seconds``, from when it could begin to the first token."""
        tokens = fresh_tokens * (1 + (warm_tokens + fresh_tokens / 2) / ATTENTION_TOKENS)
        seconds = min(seconds, _MOST_STRETCH * tokens * self.slowness_s)
        self._read_tokens = self._read_tokens * _FADING_PROMPT + tokens
        self._seconds = self._seconds * _FADING_PROMPT + seconds
        if self._pool is not None:
            self._pool.learn(fresh_tokens, warm_tokens, seconds)
            return
        # The first guess is soon forgotten; what a member holds of its pool stays.
        self._guess_tokens /= 2
        guess_s = self._guess_tokens / _FIRST_PREFILL_TOKENS_PER_S
        self.slowness_s = (self._seconds + guess_s) / (self._read_tokens + self._guess_tokens)
        for member in self._members:
            member._settle(self.slowness_s)  # noqa: SLF001  # its own kind

    def leave(self) -> None:
        """Its backend is gone, and does not follow the others any more."""
        if self._pool is not None:
            self._pool._members.remove(self)  # noqa: SLF001  # its own kind

    def _settle(self, others_s: float) -> None:
        own_s = (self._seconds + _PRIOR_TOKENS * others_s) / (self._read_tokens + _PRIOR_TOKENS)
        self.slowness_s = others_s if _alike(own_s, others_s) else own_s


_FIRST_SECONDS_PER_TOKEN = 0.03
_PRIOR_SLOPE = 0.01
"""What one more sequence adds to a step, as a share of it, until it is known: little, as on a graphics card."""

_TOKENS_PER_SEQUENCE = 7000.0
"""So many tokens in the cache slow a step down as much as one more sequence does."""

_PRIOR_ANSWERS = 4.0
_CROWD = 64.0
_PRIOR_LOADS = _PRIOR_ANSWERS / 2 * (1 + _CROWD)
_PRIOR_SQUARES = _PRIOR_ANSWERS / 2 * (1 + _CROWD * _CROWD)
"""The weight of the answers on the first line, their loads and these squared: half of them alone, half in a crowd."""

_LEAST_VARIANCE = 1e-9
_LEAST_STEP_S = 1e-6
_FADING_ANSWER = 0.99
"""Of the weight of all answers that were seen, at every new one: about the last hundred count."""


class _Line(Struct, eq=False, gc=False):
    """A straight line through weighted points, by least squares: it never falls, and stays above zero."""

    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def add(self, x: float, y: float) -> None:
        """Takes a point, all earlier ones fading."""
        self.weight = self.weight * _FADING_ANSWER + 1.0
        self.x = self.x * _FADING_ANSWER + x
        self.y = self.y * _FADING_ANSWER + y
        self.xx = self.xx * _FADING_ANSWER + x * x
        self.xy = self.xy * _FADING_ANSWER + x * y

    def fit(self) -> tuple[float, float, float, float]:
        """The height at zero and the slope; and where the middle of the points lies."""
        mean_x, mean_y = self.x / self.weight, self.y / self.weight
        variance = self.xx / self.weight - mean_x * mean_x
        covariance = self.xy / self.weight - mean_x * mean_y
        slope = min(max(covariance / variance, 0.0), mean_y / mean_x) if variance > _LEAST_VARIANCE else 0.0
        return max(mean_y - slope * mean_x, _LEAST_STEP_S), slope, mean_x, mean_y


class DecodeSpeed:
    """Seconds of one step, in which each sequence gets a token: ``base_s + slope_s x load``.

    The load is the number of sequences, and one more for every 7,000 tokens that they hold. The line goes through the
    answers that were seen, old ones fading.

    Args:
        pool: the speed of all backends for the same model, as for ``PrefillSpeed``.
    """

    __slots__ = ("_members", "_pool", "_seen", "base_s", "slope_s")

    def __init__(self, pool: "DecodeSpeed | None" = None) -> None:
        first_s = _FIRST_SECONDS_PER_TOKEN
        self.base_s: float = pool.base_s if pool is not None else first_s * (1 - _PRIOR_SLOPE)
        self.slope_s: float = pool.slope_s if pool is not None else first_s * _PRIOR_SLOPE
        self._members: list[DecodeSpeed] = []
        self._pool = pool
        self._seen = _Line()
        if pool is not None:
            pool._members.append(self)  # noqa: SLF001  # its own kind

    def seconds_per_token(self, sequences: float, kv_tokens: float) -> float:
        """What each of ``sequences`` sees between two of its tokens, while they hold ``kv_tokens``."""
        return self.base_s + self.slope_s * (sequences + kv_tokens / _TOKENS_PER_SEQUENCE)

    def learn(self, sequences: float, kv_tokens: float, seconds_per_token: float) -> None:
        """An answer was written at ``seconds_per_token``, on average beside so many others."""
        load = sequences + kv_tokens / _TOKENS_PER_SEQUENCE
        self._seen.add(load, seconds_per_token)
        if self._pool is not None:
            self._pool.learn(sequences, kv_tokens, seconds_per_token)
            return
        # Of the first guess only the shape of the line stays, at the height of what was seen.
        mean_load, mean_step_s = self._seen.x / self._seen.weight, self._seen.y / self._seen.weight
        slope_s = mean_step_s * _PRIOR_SLOPE / (1 + _PRIOR_SLOPE * (mean_load - 1))
        self.base_s, self.slope_s, _, _ = self._through(mean_step_s - slope_s * mean_load, slope_s)
        for member in self._members:
            member._settle(self.base_s, self.slope_s)  # noqa: SLF001  # its own kind

    def leave(self) -> None:
        """Its backend is gone, and does not follow the others any more."""
        if self._pool is not None:
            self._pool._members.remove(self)  # noqa: SLF001  # its own kind

    def _settle(self, base_s: float, slope_s: float) -> None:
        self.base_s, self.slope_s = base_s, slope_s
        if not self._seen.weight:
            return
        own_base_s, own_slope_s, mean_load, mean_step_s = self._through(base_s, slope_s)
        if not _alike(mean_step_s, base_s + slope_s * mean_load):
            self.base_s, self.slope_s = own_base_s, own_slope_s

    def _through(self, base_s: float, slope_s: float) -> tuple[float, float, float, float]:
        """The line through all that was seen and a few answers on this line, half of them alone, half in a crowd."""
        seen = self._seen
        line = _Line(
            weight=seen.weight + _PRIOR_ANSWERS,
            x=seen.x + _PRIOR_LOADS,
            y=seen.y + base_s * _PRIOR_ANSWERS + slope_s * _PRIOR_LOADS,
            xx=seen.xx + _PRIOR_SQUARES,
            xy=seen.xy + base_s * _PRIOR_LOADS + slope_s * _PRIOR_SQUARES,
        )
        return line.fit()


def _alike(own: float, others: float) -> bool:
    return others * _ALIKE <= own <= others / _ALIKE


class Speeds:
    """The speeds of a model at one backend, or, as a pool, at all of them."""

    __slots__ = ("decoding", "prefill")

    def __init__(self, pool: "Speeds | None" = None) -> None:
        self.prefill: PrefillSpeed = PrefillSpeed(pool.prefill if pool is not None else None)
        self.decoding: DecodeSpeed = DecodeSpeed(pool.decoding if pool is not None else None)


_STEP = 0.05
_FARTHEST = 3.0


class Stretch:
    """How much longer things take than was forecast: running quantiles of the ratio, in steps of 5 % each.

    ``p50`` is the factor that half stay under, ``p90`` that nine of ten do. Stochastic approximation (Robbins and
    Monro, 1951) on the logarithm: no samples are kept.
    """

    __slots__ = ("_log_p50", "_log_p90", "p50", "p90")

    def __init__(self) -> None:
        self._log_p50, self._log_p90 = 0.0, log(2.0)
        self.p50, self.p90 = 1.0, 2.0

    def learn(self, forecast_s: float, actual_s: float) -> None:
        """Something that was forecast to take ``forecast_s`` took ``actual_s``."""
        if not (0 < forecast_s < inf and 0 < actual_s < inf):
            return
        ratio = min(max(log(actual_s) - log(forecast_s), -_FARTHEST), _FARTHEST)
        self._log_p50 += _STEP * (0.5 - (ratio <= self._log_p50))
        self._log_p90 += _STEP * (0.9 - (ratio <= self._log_p90))
        self.p50 = exp(self._log_p50)
        self.p90 = max(exp(self._log_p90), self.p50)
