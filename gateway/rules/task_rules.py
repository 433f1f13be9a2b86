"""The policy file on budgets of tasks."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from gateway.errors import ConfigurationError
from gateway.rules.route import Route
from gateway.rules.tenant_specs import TaskSpec
from gateway.task import TaskRule


def task_rule(spec: TaskSpec, routes: Collection[str], *, where: str) -> TaskRule:
    """The budget as it runs.

    Raises:
        ConfigurationError: the route for what is beyond it is none.
    """
    if spec.otherwise is not None and spec.otherwise not in routes:
        hint = f"known: {', '.join(routes) or 'none'}"
        raise ConfigurationError(f"there is no route `{spec.otherwise}`", where=f"{where}.otherwise", hint=hint)
    return spec.rule


def budgeted(route: Route, step: Callable[[str], tuple[Any, str]], routes: Collection[str]) -> Route:
    """The route with what it lets each task take; the same one where it says nothing of it."""
    spec, where = step("task")
    return route if spec is None else replace(route, task=task_rule(spec, routes, where=where))
