from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.price import PICO_USD_PER_USD
from gateway.stores.rows import pico_usd


@pytest.mark.parametrize(
    ("cost_usd", "expected"),
    [
        (None, None),
        (Decimal(0), 0),
        (Decimal("0.000000000001"), 1),
        (Decimal("0.0000000000005"), 0),
        (Decimal("0.0000000000015"), 2),
        (Decimal("1.25"), 1_250_000_000_000),
        (Decimal("NaN"), None),
        (Decimal("Infinity"), None),
    ],
)
def test_dollars_become_whole_pico_dollars(cost_usd: Decimal | None, expected: int | None) -> None:
    """Half goes to even; what is no number is unknown."""
    assert expected == pico_usd(cost_usd)


@given(
    tokens=st.integers(0, 10**6),
    price_usd_per_mtok=st.decimals(0, 1000, places=6, allow_nan=False, allow_infinity=False),
)
def test_token_prices_are_kept_exactly(tokens: int, price_usd_per_mtok: Decimal) -> None:
    """A price per million tokens with six decimals has no fraction of a pico-dollar: bills add up to the last digit."""
    cost_usd = tokens * price_usd_per_mtok / 1_000_000
    assert cost_usd == Decimal(pico_usd(cost_usd) or 0) / PICO_USD_PER_USD
