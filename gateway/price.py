"""What an attempt used, and what that costs."""

from dataclasses import dataclass
from decimal import Decimal

from msgspec import Struct

MILLION = Decimal(1_000_000)


class Usage(Struct, frozen=True, kw_only=True, gc=False):
    """Tokens of one attempt. ``prompt_tokens`` includes cached ones, ``output_tokens`` includes reasoning.

    ``cache_write_tokens`` went into a cache at a price of their own. ``estimated`` is true where the upstream did not
    say and the counts are ours.
    """

    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0
    estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a backend charges for a model; cached input without a price of its own costs what input costs."""

    input_usd_per_mtok: Decimal
    output_usd_per_mtok: Decimal
    cached_input_usd_per_mtok: Decimal | None = None
    cache_write_usd_per_mtok: Decimal | None = None
    request_usd: Decimal = Decimal(0)

    def cost_usd(self, usage: Usage) -> Decimal:
        """US dollars for ``usage``; each token is priced once, in its own class, and the sum is never negative."""
        prompt_tokens = max(usage.prompt_tokens, 0)
        tokens_usd = max(usage.output_tokens, 0) * self.output_usd_per_mtok
        if usage.cached_tokens > 0 and self.cached_input_usd_per_mtok is not None:
            cached_tokens = min(usage.cached_tokens, prompt_tokens)
            prompt_tokens -= cached_tokens
            tokens_usd += cached_tokens * self.cached_input_usd_per_mtok
        if usage.cache_write_tokens > 0 and self.cache_write_usd_per_mtok is not None:
            written_tokens = min(usage.cache_write_tokens, prompt_tokens)
            prompt_tokens -= written_tokens
            tokens_usd += written_tokens * self.cache_write_usd_per_mtok
        tokens_usd += prompt_tokens * self.input_usd_per_mtok
        return tokens_usd / MILLION + self.request_usd
