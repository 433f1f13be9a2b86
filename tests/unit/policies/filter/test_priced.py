from decimal import Decimal
from typing import Any

from gateway.price import Price
from policies.filter.priced import Priced


def test_a_candidate_without_a_price_is_out(make_context: Any, make_candidate: Any, make_request: Any) -> None:
    """One that costs nothing says so, and is in."""
    ctx = make_context(make_request("hi"))
    free = Price(input_usd_per_mtok=Decimal(0), output_usd_per_mtok=Decimal(0))
    assert "no price is known for small" == Priced().exclude(ctx, make_candidate(price=None))
    assert Priced().exclude(ctx, make_candidate(price=free)) is None
