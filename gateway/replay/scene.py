"""What is replayed: a route of a policy file, with simulated engines in place of its backends."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gateway.errors import ConfigurationError
from gateway.facts import BackendFacts
from gateway.ports import Observer
from gateway.replay.simulated import SimulatedBackend
from gateway.rules.parameters import did_you_mean
from gateway.rules.policy_file import PolicyFile, read_policy
from gateway.rules.route import Route, Target
from gateway.rules.world import build_world
from gateway.types import Operation

DEFAULT_REPLICAS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One gateway's policies: the route, whose targets are the keys of ``backends``, and who learns from results."""

    route: Route
    backends: Mapping[str, SimulatedBackend]
    observers: tuple[Observer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A policy file that is to be replayed. Each gateway replica gets policies of its own, which learn for themselves.

    Attributes:
        policy: the file's content.
        file: its name, for errors.
        route: the name of the route; ``None`` where the file has but one.
        replicas: how many engines; the route's targets in turn. ``None`` for one a target, eight of a single target.
    """

    policy: PolicyFile
    file: str
    route: str | None = None
    replicas: int | None = None

    def build(self) -> Scene:
        """A gateway's policies, fresh.

        Raises:
            ConfigurationError: as ``serve`` would; or there is no such route.
        """
        world = build_world(self.policy, file=self.file)
        route = self._chosen(world.routes)
        if route.cascade:  # engines write no answers that could be judged: what is played is the first step
            route = route.cascade[0].route
        targets = route.targets
        count = self.replicas or (len(targets) if len(targets) > 1 else DEFAULT_REPLICAS)
        backends: dict[str, SimulatedBackend] = {}
        for number in range(count):
            target = targets[number % len(targets)]
            name = target.backend if count == len(targets) else f"{target.backend}-{number // len(targets) + 1}"
            backends[name] = SimulatedBackend(_simulated(world.backends[target.backend].facts(), target))
        simulated = replace(route, targets=tuple(Target(backend=name, model=None) for name in backends))
        observers = world.observers()
        return Scene(route=simulated, backends=backends, observers=observers)

    def check(self, engines: Collection[str]) -> None:
        """Whether each name in ``engines`` is one of the simulated backends.

        Raises:
            ConfigurationError: one is not.
        """
        known = self.build().backends
        for name in engines:
            if name not in known:
                hint = did_you_mean(name, known)
                raise ConfigurationError(f"no engine stands in for `{name}`", file=self.file, hint=hint)

    def _chosen(self, routes: tuple[Route, ...]) -> Route:
        named = {route.name: route for route in routes}
        if self.route is None and len(routes) == 1:
            return routes[0]
        known = f"routes are {', '.join(named)}"
        if self.route is None:
            raise ConfigurationError("there are several routes", file=self.file, hint=f"`--route` names one; {known}")
        if self.route not in named:
            raise ConfigurationError(f"there is no route `{self.route}`", file=self.file, hint=known)
        return named[self.route]


def read_stage(path: Path, *, route: str | None = None, replicas: int | None = None) -> Stage:
    """The policy file at ``path``, checked.

    Raises:
        ConfigurationError: as ``serve`` would.
    """
    stage = Stage(policy=read_policy(path), file=str(path), route=route, replicas=replicas)
    stage.build()
    return stage


def _simulated(facts: BackendFacts, target: Target) -> BackendFacts:
    """The backend as an engine that is up, takes everything, keeps prefixes, and costs what the backend costs."""
    model = facts.models.get(target.model or "") or next(iter(facts.models.values()), facts.unlisted)
    return BackendFacts(
        models={}, operations=frozenset(Operation), unlisted=replace(model, capabilities=None, carries=None)
    )
