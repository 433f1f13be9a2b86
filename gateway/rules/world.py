"""A policy file come to life: its backends, routes and tenants, built whole or not at all."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gateway.errors import ConfigurationError, ModelNotFound
from gateway.ports import Backend, Classifier, Learner, Observer
from gateway.rules import plugins
from gateway.rules.cached import caching
from gateway.rules.faults import Faults
from gateway.rules.guards import Guards, guards_of
from gateway.rules.judged import judged
from gateway.rules.judging import Judging
from gateway.rules.policy_file import PolicyFile, RouteSpec, Step, Steps, TargetSpec
from gateway.rules.route import Hedge, Patience, Route, Target
from gateway.rules.spilling import spilling
from gateway.rules.steered import steered
from gateway.rules.task_rules import budgeted
from gateway.rules.tenancy import Identity, Tenancy, build_tenancy
from gateway.rules.unpriced import with_unpriced
from gateway.worth import Deadline, Worth

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a reload replaces in one step."""

    backends: Mapping[str, Backend]
    routes: tuple[Route, ...]
    tenancy: Tenancy

    def match(self, model: str) -> Route:
        """The first route, in the order of the file, that answers ``model``; else ``model:latest``, which is the same.

        Raises:
            ModelNotFound: none does. The name is not repeated: an error is no place for what a client wrote.
        """
        for route in self.routes:
            if route.answers(model):
                return route
        latest = f"{model}:latest"
        for route in self.routes:  # a policy file may name Ollama's models as Ollama does
            if route.answers(latest):
                return route
        raise ModelNotFound("no route answers this model", param="model")

    def route_for(self, identity: Identity, model: str) -> Route:
        """The route that answers ``model``, if both are for that tenant.

        Raises:
            ModelNotFound: they are not, or none does; which of the two is not told.
        """
        route = self.match(model)
        identity.check(model, route.name)
        return route

    def models(self) -> tuple[str, ...]:
        """The model names to show to clients: those that routes name outright, then those behind patterns."""
        named = [model for route in self.routes for model in route.models if "*" not in model]
        behind = [model for route in self.routes for model in self._models_behind(route) if route.answers(model)]
        return tuple(dict.fromkeys((*named, *behind)))

    def models_for(self, identity: Identity) -> tuple[str, ...]:
        """Those of ``models`` that one tenant may ask for."""
        return tuple(model for model in self.models() if identity.admits(model, self.match(model).name))

    def owner(self, model: str) -> str:
        """A backend that serves the model: the first target of its route that lists it, or the first of all."""
        targets = self.match(model).targets
        listing = (t.backend for t in targets if t.model == model or model in self.backends[t.backend].facts().models)
        return next(listing, targets[0].backend)

    def secret_names(self, model_dir: Path) -> tuple[str, ...]:
        """The environment variables that backends and guards need, those included that only a preset names."""
        asked = (getattr(backend, "needs", None) for backend in self.backends.values())
        named = tuple(name for needs in asked if needs is not None for name in needs(model_dir).environment)
        keys = (getattr(rule.guard, "api_key_env", "") for guards in self.guards() for rule in guards.rules)
        return (*named, *(key for key in keys if key))

    def observers(self) -> tuple[Observer, ...]:
        """Every policy that learns from finished requests, once each."""
        policies = [policy for route in self.routes for policy in _policies(route)]
        found = {id(policy): policy for policy in policies if isinstance(policy, Observer)}
        return tuple(found.values())

    def learners(self) -> tuple[Learner, ...]:
        """Every policy whose learning outlives the process, once each."""
        return tuple(policy for policy in self.observers() if isinstance(policy, Learner))

    def admitters(self) -> Mapping[str, Any]:
        """Each route's admitter, for gauges."""
        return {route.name: route.admitter for route in self.routes}

    def guards(self) -> Iterable[Guards]:
        """Those of all routes and keys."""
        found = (*(route.guards for route in self.routes), *(one.guards for one in self.tenancy.keys.values()))
        return (guards for guards in found if guards is not None)

    def _models_behind(self, route: Route) -> Iterable[str]:
        for target in (target for target in route.targets if not target.canary):
            yield from (target.model,) if target.model else sorted(self.backends[target.backend].facts().models)


def build_world(policy: PolicyFile, *, file: str, old: World | None = None) -> World:
    """Builds everything that the policy file names.

    A backend or a route of ``old`` whose configuration has not changed is taken over as it runs, so that a reload
    neither restarts an engine nor cuts a stream, nor forgets what policies have learned and who holds which place.

    Raises:
        ConfigurationError: with the file and the path inside it, and all other mistakes beside it; nothing has been
            started then.
    """
    old = old or World(backends={}, routes=(), tenancy=Tenancy())
    running = {route.name: route for route in old.routes}
    faults, backends, tenancy = Faults(), dict[str, Backend](), Tenancy()
    for name, written in policy.backends.items():
        with faults.kept():
            backends[name] = _keep(plugins.build("backend", written, where=f"backends.{name}"), old.backends.get(name))
    routes: list[Route] = []
    if policy.routes or not faults:
        for name, spec in faults.either(partial(_routes, policy, backends), dict[str, RouteSpec]).items():
            with faults.kept():
                routes.append(_keep(_route(name, spec, policy, backends), running.get(name)))
    with faults.kept():
        tenancy = build_tenancy(policy)
    faults.tell(file=file)
    common = _with_common_classifiers(routes, [route.classifier for route in old.routes])
    return World(backends=backends, routes=common, tenancy=tenancy)


def _keep(fresh: T, running: T | None) -> T:
    return running if running is not None and running == fresh else fresh


def _with_common_classifiers(routes: Iterable[Route], running: list[Classifier]) -> tuple[Route, ...]:
    """Routes that forecast alike do so with one classifier: what it learns of a model holds wherever it answers."""
    common = list(running)
    made = []
    for route in routes:
        alike = next((known for known in common if known == route.classifier), None)
        if alike is None:
            common.append(route.classifier)
        made.append(route if alike is None or alike is route.classifier else replace(route, classifier=alike))
    return tuple(made)


def _routes(policy: PolicyFile, backends: Mapping[str, Backend]) -> Mapping[str, RouteSpec]:
    """The file's routes; where it has none, each model answers under its own name wherever it is served."""
    if policy.routes:
        return policy.routes
    serving: dict[str, list[str]] = {}
    for name, backend in backends.items():
        for model in backend.facts().models:
            serving.setdefault(model, []).append(f"{name}/{model}")
    if not serving:
        raise ConfigurationError("no backend lists its models, so there must be a route", where="routes")
    # Not validated: a model's name may be longer than a pattern in the file, and stands for itself all the same.
    return {model: RouteSpec.model_construct(models=[model], targets=targets) for model, targets in serving.items()}


def _route(name: str, spec: RouteSpec, policy: PolicyFile, backends: Mapping[str, Backend]) -> Route:
    def step(key: str) -> tuple[Any, str]:
        """The step and where it stands: in the route, or in the defaults."""
        where = f"routes.{name}" if key in spec.model_fields_set else "defaults"
        source: Steps = spec if key in spec.model_fields_set else policy.defaults
        return getattr(source, key), f"{where}.{key}"

    def target(text: str | TargetSpec, where: str) -> Target:
        return _target(text, where, spec, policy.backends, backends)

    if not spec.targets and spec.cascade is None:
        raise ConfigurationError("must be given", where=f"routes.{name}.targets", hint="or a `cascade`")
    faults, zone = Faults(), policy.limits.time_zone
    targets = tuple(
        faults.either(partial(target, text, f"routes.{name}.targets[{i}]"), partial(_as_written, text))
        for i, text in enumerate(spec.targets)
    )
    route = _plain_route(name, tuple(spec.models), targets, step, faults)
    unpriced, where = step("unpriced")
    changes: tuple[Callable[[Route], Route], ...] = (
        lambda route: with_unpriced(route, unpriced, where=where),
        lambda route: budgeted(route, step, policy.routes),
        lambda route: steered(route, step, canary=spec.canary, target=target, time_zone=zone),
        lambda route: judged(route, step, cascade=spec.cascade, target=target, time_zone=zone),
        lambda route: caching(route, step),
        lambda route: replace(route, guards=guards_of(step)),
        lambda route: spilling(route, spec.spill, target=target, time_zone=zone),
    )
    for change in changes:
        with faults.kept():
            route = change(route)
    faults.tell()
    return route


def _plain_route(
    name: str,
    models: tuple[str, ...],
    targets: tuple[Target, ...],
    step: Callable[[str], tuple[Any, str]],
    faults: Faults,
) -> Route:
    """The route without what only some have; in the place of a step that is at fault, the one that stands by itself."""

    def one(key: str, family: str) -> Any:
        value, where = step(key)
        build = partial(plugins.build, family)
        return faults.either(
            partial(build, value, where=where), partial(build, Steps.model_fields[key].default, where=where)
        )

    def many(key: str, family: str) -> tuple[tuple[str, Any], ...]:
        values, where = step(key)
        built = []
        for index, value in enumerate(values):
            with faults.kept():
                built.append((_step_name(value), plugins.build(family, value, where=f"{where}[{index}]")))
        return tuple(built)

    return Route(
        name=name,
        models=models,
        targets=targets,
        classifier=one("classify", "classify"),
        admitter=one("admit", "admit"),
        filters=many("filter", "filter"),
        scorers=many("cost", "cost"),
        ranker=one("rank", "rank"),
        worth=Worth(**step("worth")[0].model_dump()),
        patience=Patience(**step("timeouts")[0].model_dump()),
        attempts=step("attempts")[0],
        deadline=Deadline(**deadline.model_dump()) if (deadline := step("deadline")[0]) is not None else None,
        hedge=Hedge(**hedge.model_dump()) if (hedge := step("hedge")[0]) is not None else None,
        resume=step("resume")[0],
    )


def _step_name(step: Step) -> str:
    return step if isinstance(step, str) else str(step.get("use", ""))


def _as_written(given: str | TargetSpec) -> Target:
    text, drain = (given, False) if isinstance(given, str) else (given.to, given.drain or given.weight == 0)
    name, _, model = text.partition("/")
    return Target(backend=name, model=model or None, drain=drain)


def _target(
    given: str | TargetSpec, where: str, spec: RouteSpec, named: Iterable[str], backends: Mapping[str, Backend]
) -> Target:
    """``named`` are all backends of the file; of one that could not be built nothing is known but its name."""
    written = _as_written(given)
    name, (_, slash, model) = written.backend, (given if isinstance(given, str) else given.to).partition("/")
    if name not in named:
        raise ConfigurationError(f"there is no backend `{name}`", where=where, hint=f"backends are {', '.join(named)}")
    if name not in backends:
        return written
    facts = backends[name].facts()
    served = facts.models
    if slash:
        if not model:
            raise ConfigurationError(
                "the model's name is missing", where=where, hint=f"`{name}` alone, or with a model"
            )
        if served and model not in served and not facts.discovered:
            raise ConfigurationError(
                f"`{name}` does not list `{model}`", where=where, hint=f"it lists {', '.join(served)}"
            )
        return written
    if len(served) > 1 and not facts.discovered and not all(pattern in served for pattern in spec.models):
        hint = f"name one: `{name}/{next(iter(served))}`, or let the route's `models` be names that `{name}` lists"
        raise ConfigurationError(f"`{name}` serves {len(served)} models", where=where, hint=hint)
    return written


def _policies(route: Route) -> tuple[object, ...]:
    return (
        route.classifier,
        route.admitter,
        *(policy for _, policy in route.filters),
        *(policy for _, policy in route.scorers),
        route.ranker,
        *(judge for judging in _judgings(route) for _, judge in judging.judges),
        *(rule.guard for rule in (route.guards.rules if route.guards is not None else ())),
    )


def _judgings(route: Route) -> Iterable[Judging]:
    shadow = route.shadow.judging if route.shadow is not None else None
    found = (route.judging, shadow, *(step.judging for step in route.cascade))
    return (judging for judging in found if judging is not None)
