"""What a request will weigh before it is served: tokens as a distribution, its kind, and the seconds they take."""

import math
from enum import StrEnum

from msgspec import Struct

from gateway.units import Units

SHORT_PROMPT_TOKENS = 1024
"""A prompt up to this is read in a blink; longer ones are what prefill and prefixes are about."""

SHORT_OUTPUT_TOKENS = 256
"""Half of the answers of a general assistant are shorter."""

_P80_OF_P90 = 0.657
"""How far the 80th percentile of a bell curve lies on the way from its median to its 90th percentile."""


class LengthClass(StrEnum):
    """The length of one answer in tokens, by the end of its class. Few enough for a metric label."""

    UP_TO_64 = "64"
    UP_TO_192 = "192"
    UP_TO_384 = "384"
    UP_TO_640 = "640"
    LONGER = "longer"

    @classmethod
    def of(cls, tokens: float) -> "LengthClass":
        """The class that ``tokens`` fall into."""
        return next((name for end, name in _CLASS_ENDS if tokens <= end), cls.LONGER)


_CLASS_ENDS = tuple((int(name), name) for name in LengthClass if name is not LengthClass.LONGER)


class RequestKind(StrEnum):
    """What a request is mostly made of: reading, writing, both or neither."""

    SHORT_IN_SHORT_OUT = "short_in_short_out"
    SHORT_IN_LONG_OUT = "short_in_long_out"
    LONG_IN_SHORT_OUT = "long_in_short_out"
    LONG_IN_LONG_OUT = "long_in_long_out"


class Seconds(Struct, frozen=True):
    """Quantiles of a time."""

    p50: float
    p80: float
    p90: float

    @classmethod
    def around(cls, p50: float, p90: float) -> "Seconds":
        """With the 80th percentile between, where a bell curve has it."""
        return cls(p50=p50, p80=p50 + _P80_OF_P90 * (p90 - p50), p90=p90)


class Forecast(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a request will weigh, before it is served: prompt tokens, and quantiles of the output length in tokens.

    The output is that of all ``choices`` together. ``units`` is what one that is passed on will take besides.
    """

    prompt_tokens: int
    output_tokens_p50: int
    output_tokens_p90: int
    choices: int = 1
    units: Units | None = None

    @property
    def output_tokens_p80(self) -> int:
        """Between the median and the 90th percentile, on the scale on which lengths spread evenly: that of factors."""
        p50, p90 = self.output_tokens_p50, self.output_tokens_p90
        return round((p50 + 1) * math.pow((p90 + 1) / (p50 + 1), _P80_OF_P90)) - 1

    @property
    def length_class(self) -> LengthClass:
        """The class of one answer of median length."""
        return LengthClass.of(self.output_tokens_p50 / max(self.choices, 1))

    @property
    def kind(self) -> RequestKind:
        """Short or long in, short or long out."""
        reads = "short" if self.prompt_tokens <= SHORT_PROMPT_TOKENS else "long"
        writes = "short" if self.output_tokens_p50 <= SHORT_OUTPUT_TOKENS else "long"
        return RequestKind(f"{reads}_in_{writes}_out")

    def total_s(self, *, first_token_p50_s: float, first_token_p90_s: float, seconds_per_token: float) -> Seconds:
        """When the last token would be here, where the first one comes and writing goes as given.

        Choices are written side by side. What the two times may have too much adds up like the sides of a right angle,
        as independent deviations do: waiting long and writing long at once is rarer than either.
        """
        each = seconds_per_token / max(self.choices, 1)
        p50 = first_token_p50_s + self.output_tokens_p50 * each
        writing_longer_s = (self.output_tokens_p90 - self.output_tokens_p50) * each
        return Seconds.around(p50, p50 + math.hypot(first_token_p90_s - first_token_p50_s, writing_longer_s))
