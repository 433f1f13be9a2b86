"""A route with the cache that its policy file gives it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gateway.errors import ConfigurationError
from gateway.rules.caching import CacheSpec, Caching
from gateway.rules.route import Route


def caching(route: Route, step: Callable[[str], tuple[Any, str]]) -> Route:
    """The route, which keeps its answers where that is asked.

    Raises:
        ConfigurationError: it has a cascade, too, whose answers are judged first and would be no more.
    """
    spec: CacheSpec | None
    spec, where = step("cache")
    if spec is None:
        return route
    if route.cascade:
        hint = f"`cache: null` in routes.{route.name}"
        raise ConfigurationError("a route with a `cascade` keeps no answers", where=where, hint=hint)
    return replace(route, cache=Caching(**spec.model_dump()))
