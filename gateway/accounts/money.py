"""Money as accounts and reports tell it: exact, and without zeros that say nothing."""

from decimal import Decimal

from gateway.price import PICO_USD_PER_USD

_PICO_DIGITS = len(str(PICO_USD_PER_USD)) - 1


def usd(pico_usd: int) -> Decimal:
    """Pico-dollars, as the ledger keeps them, in US dollars."""
    return Decimal(pico_usd).scaleb(-_PICO_DIGITS).normalize() + Decimal(0)
