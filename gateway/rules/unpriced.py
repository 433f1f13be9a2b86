"""What a route does with a model of which nobody knows what it costs: the policy file's ``unpriced``."""

from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from gateway.price import AssumedPrice
from gateway.rules.plugins import build
from gateway.rules.route import Route
from gateway.rules.tenant_specs import MODEL, Usd

_FILTER = "priced"


class RatesSpec(BaseModel):
    """A price, in US dollars per million tokens and per request."""

    model_config = MODEL

    input_usd_per_mtok: Usd
    output_usd_per_mtok: Usd
    cached_input_usd_per_mtok: Usd | None = None
    cache_write_usd_per_mtok: Usd | None = None
    reasoning_usd_per_mtok: Usd | None = None
    request_usd: Usd = Decimal(0)


class AssumeSpec(BaseModel):
    """A price in the place of one that nobody knows."""

    model_config = MODEL

    assume: RatesSpec


Unpriced = Annotated[Literal["allow", "refuse"] | AssumeSpec, Field(union_mode="left_to_right")]


def with_unpriced(route: Route, unpriced: Unpriced, *, where: str) -> Route:
    """The route, as it is to treat what has no price."""
    if isinstance(unpriced, AssumeSpec):
        return replace(route, assumed_price=AssumedPrice(**unpriced.assume.model_dump()))
    if unpriced == "refuse" and _FILTER not in dict(route.filters):
        return replace(route, filters=(*route.filters, (_FILTER, build("filter", _FILTER, where=where))))
    return route
