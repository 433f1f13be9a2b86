"""The plugins of a policy file that is out of shape elsewhere: what is wrong with them can be told all the same."""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.rules import plugins
from gateway.rules.faults import Faults

_SINGLE = ("classify", "admit", "rank")
_LISTED = ("filter", "cost")


def plugin_faults(tree: Mapping[Any, Any]) -> None:
    """Builds the backends and the steps as they are written; what is no plugin at all is not looked at.

    Args:
        tree: the file as YAML has it.

    Raises:
        ConfigurationError: one of them is wrong, with all others beside it.
    """
    faults = Faults()
    for family, spec, where in _written(tree):
        if isinstance(spec, str | Mapping):
            with faults.kept():
                plugins.build(family, spec, where=where)
    faults.tell()


def _written(tree: Mapping[Any, Any]) -> Iterator[tuple[str, Any, str]]:
    """The family of each, what stands there, and where."""
    for name, spec in _items(tree.get("backends")):
        if isinstance(spec, Mapping):
            yield "backend", spec, f"backends.{name}"
    for place, steps in (("defaults", tree.get("defaults")), *_routes(tree)):
        if isinstance(steps, Mapping):
            yield from _steps(steps, place)


def _routes(tree: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for name, route in _items(tree.get("routes")):
        yield f"routes.{name}", route


def _steps(steps: Mapping[Any, Any], place: str) -> Iterator[tuple[str, Any, str]]:
    for key in _SINGLE:
        if key in steps:
            yield key, steps[key], f"{place}.{key}"
    for key in _LISTED:
        listed = steps.get(key)
        for index, step in enumerate(listed if isinstance(listed, list) else ()):
            yield key, step, f"{place}.{key}[{index}]"


def _items(tree: Any) -> Iterator[tuple[Any, Any]]:
    yield from tree.items() if isinstance(tree, Mapping) else ()
