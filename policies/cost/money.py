"""What the answer is expected to cost at the candidate's price."""

import math
from dataclasses import dataclass
from decimal import Decimal

from gateway.types import Candidate, Context, Price, Usage


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
        usage = Usage(
            prompt_tokens=ctx.forecast.prompt_tokens,
            output_tokens=ctx.forecast.output_tokens_p50,
            cached_tokens=candidate.warm_tokens,
        )
        return float((candidate.price or self._unknown()).cost_usd(usage))

    def _unknown(self) -> Price:
        rate = Decimal(str(self.unknown_usd_per_mtok))
        return Price(input_usd_per_mtok=rate, output_usd_per_mtok=rate)
