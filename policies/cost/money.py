"""What the answer is expected to cost at the candidate's price."""

import math
from dataclasses import dataclass

from gateway.types import Candidate, Context

_MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Money:
    """What the answer is expected to cost at the candidate's price.

    ::

        usd = (fresh x input + warm x cached_input + output x output_price) / 1,000,000 + price per request

    ``warm`` is the part of the prompt that the candidate's cache is expected to hold, ``fresh`` is the rest of the
    forecast prompt, ``output`` is the forecast median. A warm prefix is cheaper only where the price says so.

    A candidate without a known price is billed at ``unknown_usd_per_mtok`` for input and output alike. The default is
    what an expensive model costs: who does not say what something costs is not preferred for it. A backend of your own
    that costs nothing per token says so with a price of 0.

    Attributes:
        unknown_usd_per_mtok: US dollars per million tokens where no price is known.

    Example::

        cost:
          - {use: money, unknown_usd_per_mtok: 30}
    """

    unknown_usd_per_mtok: float = 30.0

    def __post_init__(self) -> None:
        if not 0 <= self.unknown_usd_per_mtok < math.inf:
            raise ValueError(f"`unknown_usd_per_mtok` must not be negative, and is {self.unknown_usd_per_mtok}")

    def usd(self, ctx: Context, candidate: Candidate) -> float:
        """US dollars at the candidate's price, for the forecast prompt and the forecast median answer."""
        forecast, price = ctx.forecast, candidate.price
        if price is None:
            return (forecast.prompt_tokens + forecast.output_tokens_p50) * self.unknown_usd_per_mtok / _MILLION
        warm_tokens = min(candidate.warm_tokens, forecast.prompt_tokens)
        cached_rate = price.cached_input_usd_per_mtok
        warm_rate = float(price.input_usd_per_mtok if cached_rate is None else cached_rate)
        tokens_usd = (
            (forecast.prompt_tokens - warm_tokens) * float(price.input_usd_per_mtok)
            + warm_tokens * warm_rate
            + forecast.output_tokens_p50 * float(price.output_usd_per_mtok)
        )
        return tokens_usd / _MILLION + float(price.request_usd)
