"""The policy file on spilling over: where a route's requests go when there is no room for them, and for how much."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from gateway.errors import ConfigurationError
from gateway.limits.calendar import read_period
from gateway.limits.limit import NANO, Limit, Measure
from gateway.rules.period_name import PeriodName
from gateway.rules.route import Route, Spill, Target
from gateway.rules.tenant_specs import MODEL, Usd, read_zone


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


class SpillSpec(BaseModel):
    """Where to, for how much in which time, and after how long a wait at home."""

    model_config = MODEL

    to: Annotated[list[Annotated[str, Field(min_length=1)]], BeforeValidator(_listed), Field(min_length=1)]
    usd: Usd
    per: PeriodName = "day"
    after_s: Annotated[float, Field(ge=0)] = 2.0


def spilling(route: Route, spec: SpillSpec | None, *, target: Callable[[str, str], Target], time_zone: str) -> Route:
    """The route as it spills over; the same one where it does not. ``target`` reads a target of the file.

    Raises:
        ConfigurationError: a place to spill to is none, or is a target already.
    """
    if spec is None:
        return route
    where = f"routes.{route.name}.spill.to"
    targets = tuple(target(text, where) for text in spec.to)
    if not {(one.backend, one.model) for one in targets}.isdisjoint((one.backend, one.model) for one in route.targets):
        hint = "requests go there anyway; take it out of the targets"
        raise ConfigurationError("this is a target already", where=where, hint=hint)
    budget = Limit(
        scope=f"spill:{route.name}",
        measure=Measure.USD,
        amount=int(spec.usd * NANO),
        period=read_period(spec.per),
        zone=read_zone(time_zone),
    )
    away = replace(route, targets=targets, attempts=1, hedge=None, steer=None, cascade=(), shadow=None)
    return replace(route, spill=Spill(route=away, budget=budget, after_s=spec.after_s))
