"""The label values that metrics may have: the names of the policy file, and two words for everything else."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.rules.world import World

OTHER = "other"
NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelNames:
    """Folds names that nobody configured into ``other``, so that no client can add a series.

    ``routes`` are the names of the routes, ``models`` the models of each backend by the backend's name.
    """

    routes: frozenset[str] = frozenset()
    models: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def route(self, name: str) -> str:
        """The route's label; ``none`` where the request did not get as far as a route."""
        if not name:
            return NONE
        return name if name in self.routes else OTHER

    def backend(self, name: str) -> str:
        """The backend's label."""
        return name if name in self.models else OTHER

    def model(self, backend: str, name: str) -> str:
        """The label of a backend's model."""
        return name if name in self.models.get(backend, ()) else OTHER


def label_names(world: World) -> LabelNames:
    """The names of a policy file that has come to life."""
    return LabelNames(
        routes=frozenset(route.name for route in world.routes),
        models={name: frozenset(backend.facts().models) for name, backend in world.backends.items()},
    )
