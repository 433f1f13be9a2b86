"""A route with what its policy file says of success: what it learns, explores, insists on and tries out."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gateway.errors import ConfigurationError
from gateway.limits.calendar import read_period
from gateway.limits.limit import NANO, Limit, Measure
from gateway.rules import plugins
from gateway.rules.route import Route, Target
from gateway.rules.steer import Canary, Explore, Steer
from gateway.rules.steer_specs import CanarySpec, ExploreSpec, SuccessSpec
from gateway.rules.tenant_specs import read_zone

Step = Callable[[str], tuple[Any, str]]
"""What a route has under a key, and where that stands in the file."""


def steered(
    route: Route, step: Step, *, canary: CanarySpec | None, target: Callable[[str, str], Target], time_zone: str
) -> Route:
    """The route as it steers; the same one where nothing of it depends on success. ``target`` reads a canary's.

    Raises:
        ConfigurationError: the canary is no target, or is one already.
    """
    rate, where = step("least_success")
    if rate is not None:
        guard = plugins.build("filter", {"use": "least_success", "rate": rate}, where=where)
        route = replace(route, filters=(*route.filters, ("least_success", guard)))
    success: SuccessSpec | None = step("success")[0]
    explore: ExploreSpec | None = step("explore")[0]
    policies = [policy for _, policy in (*route.filters, *route.scorers)]
    asked = any(getattr(policy, "steers", False) for policy in policies)
    if not asked and success is None and explore is None and canary is None:
        return route
    success = success or SuccessSpec()
    if canary is not None:
        route = _with_canary(route, target(canary.to, f"routes.{route.name}.canary.to"))
    return replace(
        route,
        steer=Steer(
            half_life_s=success.half_life_s,
            confidence=success.confidence,
            explore=_explore(route.name, explore, time_zone) if explore is not None else None,
            canary=_canary(canary, route.targets[-1]) if canary is not None else None,
        ),
    )


def _with_canary(route: Route, tried: Target) -> Route:
    if any((target.backend, target.model) == (tried.backend, tried.model) for target in route.targets):
        hint = "a canary is tried beside the targets"
        raise ConfigurationError("this is a target already", where=f"routes.{route.name}.canary.to", hint=hint)
    return replace(route, targets=(*route.targets, replace(tried, canary=True)))


def _explore(route: str, spec: ExploreSpec, time_zone: str) -> Explore:
    budget = Limit(
        scope=f"explore:{route}",
        measure=Measure.USD,
        amount=int(spec.usd * NANO),
        period=read_period(spec.per),
        zone=read_zone(time_zone),
    )
    return Explore(share=spec.share, budget=budget)


def _canary(spec: CanarySpec, target: Target) -> Canary:
    return Canary(
        backend=target.backend,
        model=target.model,
        share=spec.share,
        confidence=spec.confidence,
        when_better=spec.when_better,
        run=spec.run,
    )
