"""What the answer is expected to cost at the candidate's price."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from gateway.forecast import Forecast
from gateway.price import Price, Usage
from gateway.types import Candidate, Context

_TOKENS_PER_MTOK = 1e6
_MOST_PRICES = 1024


class _Rates(Struct, frozen=True, gc=False):
    """A price in US dollars per token, for sums that are expectations: the ledger's are exact, and ten times slower."""

    price: Price | None
    input: float
    output: float
    cached_input: float
    cache_write: float
    request: float
    free: bool
    conditional: bool = False


@dataclass(frozen=True, kw_only=True)
class Money:
    """What the answer is expected to cost at the candidate's price.

    ::

        usd = (warm x cached_input + cold x cache_write + output x output_price) / 1,000,000 + price per request

    ``warm`` is the part of the prompt that the candidate's cache is expected to hold: for a provider that caches by
    rules of its own, what those rules would serve from it. ``cold`` is the rest of the forecast prompt, at the price of
    writing it to the cache where there is one, else at that of input. ``output`` is the forecast median. A warm prefix
    is cheaper only where the price says so. The price is that of the hour, and for a prompt of this length.

    Of what is passed on as it came (pictures, sound, ranking) it is the price of what is known beforehand: how many
    pictures, characters, documents, and about how many seconds.

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
    _rates: dict[int, _Rates] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.unknown_usd_per_mtok < math.inf:
            raise ValueError(f"`unknown_usd_per_mtok` must not be negative, and is {self.unknown_usd_per_mtok}")

    def usd(self, ctx: Context, candidate: Candidate) -> float:
        """US dollars at the candidate's price, for the forecast prompt and the forecast median answer."""
        forecast, price = ctx.forecast, candidate.price
        if forecast.units is not None:
            return self._of_units(forecast, price)
        rates = self._rates.get(id(price)) or self._learn(price)
        if rates.conditional and price is not None:
            plain = price.at(ctx.request.arrival.received_unix_s, prompt_tokens=forecast.prompt_tokens)
            rates = self._rates.get(id(plain)) or self._learn(plain)
        if rates.free:
            return 0.0
        prompt_tokens, warm = forecast.prompt_tokens, candidate.warm_tokens
        warm_tokens = warm if warm < prompt_tokens else prompt_tokens  # noqa: FURB136  # min() costs four times as much here
        return (
            warm_tokens * rates.cached_input
            + (prompt_tokens - warm_tokens) * rates.cache_write
            + forecast.output_tokens_p50 * rates.output
            + rates.request
        )

    def usd_each(self, ctx: Context, candidates: Sequence[Candidate]) -> list[float]:
        """The same for all candidates."""
        return [self.usd(ctx, candidate) for candidate in candidates]

    def _of_units(self, forecast: Forecast, price: Price | None) -> float:
        """Of a request that is passed on: what is known of it beforehand, at the price of that."""
        usage = Usage(
            prompt_tokens=forecast.prompt_tokens, output_tokens=forecast.output_tokens_p50, units=forecast.units
        )
        if price is None:
            return (usage.prompt_tokens + usage.output_tokens) * self.unknown_usd_per_mtok / _TOKENS_PER_MTOK
        return float(price.cost_usd(usage))

    def _learn(self, price: Price | None) -> _Rates:
        """The price's rates, kept with the price itself, so that nobody else can come to have its id."""
        if len(self._rates) >= _MOST_PRICES:
            self._rates.clear()
        rates = self._rates[id(price)] = self._read(price)
        return rates

    def _read(self, price: Price | None) -> _Rates:
        if price is None:
            unknown = self.unknown_usd_per_mtok / _TOKENS_PER_MTOK
            return _Rates(None, unknown, unknown, unknown, unknown, 0.0, free=unknown == 0)
        input_ = float(price.input_usd_per_mtok) / _TOKENS_PER_MTOK
        cached, written = price.cached_input_usd_per_mtok, price.cache_write_usd_per_mtok
        return _Rates(
            price,
            input=input_,
            output=float(price.output_usd_per_mtok) / _TOKENS_PER_MTOK,
            cached_input=input_ if cached is None else float(cached) / _TOKENS_PER_MTOK,
            cache_write=input_ if written is None else float(written) / _TOKENS_PER_MTOK,
            request=float(price.request_usd),
            conditional=price.conditional,
            free=not (
                price.conditional
                or price.input_usd_per_mtok
                or price.output_usd_per_mtok
                or price.request_usd
                or cached
                or written
            ),
        )
