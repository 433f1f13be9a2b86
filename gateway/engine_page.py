"""``GET /v1/engine``: what the engines on this machine say of themselves."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from gateway.ports import Backend


@runtime_checkable
class Engine(Protocol):
    """A backend that has an engine of its own to tell about."""

    def condition(self) -> Mapping[str, Any]:
        """What it runs, what was measured of it, and what it does now: values of JSON, no path and no prompt in it."""
        ...


def engine_page(backends: Mapping[str, Backend]) -> dict[str, Any]:
    """One entry for each engine, in the order of the policy file."""
    engines = [(name, backend) for name, backend in backends.items() if isinstance(backend, Engine)]
    return {
        "object": "list",
        "data": [{"object": "engine", "backend": name, **engine.condition()} for name, engine in engines],
    }
