"""Values as the ledger's tables take them: texts that end, counts of 64 bits, money without a fraction."""

from decimal import Decimal

from msgspec.structs import replace

from gateway.price import PICO_USD_PER_USD, Usage

Value = str | int | float | bytes | None

MAX_LABEL_CHARACTERS = 256
INT64_MAX = 2**63 - 1

_PICO_USD_PER_USD = Decimal(PICO_USD_PER_USD)


def pico_usd(cost_usd: Decimal | None) -> int | None:
    """US dollars as whole pico-dollars, rounded half to even; ``None`` where the cost is unknown or no number."""
    if cost_usd is None or not cost_usd.is_finite():
        return None
    pico_usd = round(cost_usd * _PICO_USD_PER_USD)
    return pico_usd if -INT64_MAX <= pico_usd <= INT64_MAX else fitting(pico_usd)


def label(text: str, most: int = MAX_LABEL_CHARACTERS) -> str:
    """A label of bounded length that SQLite can store: a lone surrogate has no UTF-8."""
    if len(text) <= most and text.isascii():
        return text
    return text[:most].encode("utf-8", "replace").decode()


def counts(one: int, two: int, three: int) -> tuple[int, int, int]:
    """Counts that fit SQLite's 64 bits."""
    if 0 <= one | two | three <= INT64_MAX:  # together they have a sign, or a 64th bit, where one of them has
        return one, two, three
    return fitting(one), fitting(two), fitting(three)


def fitting(number: int) -> int:
    """The count itself, or the largest that 64 bits hold."""
    if -INT64_MAX <= number <= INT64_MAX:
        return number
    return INT64_MAX if number > 0 else -INT64_MAX


def fitted(usage: Usage) -> Usage:
    """With counts that fit SQLite's 64 bits: an upstream may claim any number of tokens."""
    together = usage.prompt_tokens | usage.cached_tokens | usage.output_tokens
    if 0 <= together | usage.reasoning_tokens | usage.cache_write_tokens <= INT64_MAX:  # as in ``counts``
        return usage
    return replace(
        usage,
        prompt_tokens=fitting(usage.prompt_tokens),
        cached_tokens=fitting(usage.cached_tokens),
        output_tokens=fitting(usage.output_tokens),
        reasoning_tokens=fitting(usage.reasoning_tokens),
        cache_write_tokens=fitting(usage.cache_write_tokens),
    )
