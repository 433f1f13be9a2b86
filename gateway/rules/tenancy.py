"""Who may call, and which limits hold for whom: the tenants, keys and limits of a policy file come to life."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

from gateway.errors import ConfigurationError, ModelNotFound
from gateway.limits.limit import Limit
from gateway.rules.faults import Faults
from gateway.rules.guards import Guards, build_guards
from gateway.rules.name_pattern import name_pattern
from gateway.rules.policy_file import PolicyFile
from gateway.rules.task_rules import task_rule
from gateway.rules.tenant_specs import LimitSpec, TenantSpec, read_zone
from gateway.task import TaskRule
from gateway.worth import Precedence

OPEN_HOUSE = "default"
"""The tenant of everybody, where no keys are configured."""


_STANDARD = Precedence()
_LATEST = ":latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a key stands for. Nothing that a client writes in a request changes it.

    ``routes`` and ``models`` are what it may use, ``None`` for all; ``limits`` are all that hold for it whatever it
    asks: its key's, its own and its team's; ``task`` is what each of its tasks may take; ``guards`` look at its
    requests before those of the route do. ``expires_unix_s`` is when the key opens no more.
    """

    tenant: str
    key: str = ""
    team: str = ""
    precedence: Precedence = _STANDARD
    routes: frozenset[str] | None = None
    models: tuple[str, ...] | None = None
    limits: tuple[Limit, ...] = ()
    task: TaskRule | None = None
    guards: Guards | None = None
    expires_unix_s: float | None = None

    def admits(self, model: str, route: str) -> bool:
        """Whether a model, by the name that clients ask for, and the route that answers it are for this tenant."""
        allowed = self.routes is None or route in self.routes
        return allowed and (self.models is None or _any_answers(self.models, model))

    def check(self, model: str, route: str) -> None:
        """Refuses a model or a route that is not for this tenant, as if there were none.

        Raises:
            ModelNotFound: what it may not use is told like what does not exist, so that nobody learns names from it.
        """
        if not self.admits(model, route):
            raise ModelNotFound("no route answers this model", param="model")


Keys = Mapping[str, Identity]
"""By the SHA-256 of each key, in hex."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenancy:
    """The keys, and the limits that hold for models (by the name that clients ask for) and for backends."""

    keys: Keys = field(default_factory=dict)
    models: Sequence[tuple[str, tuple[Limit, ...]]] = ()
    backends: Mapping[str, tuple[Limit, ...]] = field(default_factory=dict)

    def limits(self) -> Iterable[Limit]:
        """All limits that there are; those of several keys come with each of them."""
        for identity in self.keys.values():
            yield from identity.limits
        for limits in (*(limits for _, limits in self.models), *self.backends.values()):
            yield from limits

    def of_model(self, model: str) -> tuple[Limit, ...]:
        """The limits that hold for a model, whoever asks for it."""
        if not self.models:
            return ()
        return tuple([limit for pattern, limits in self.models if _answers(pattern, model) for limit in limits])


def build_tenancy(policy: PolicyFile) -> Tenancy:
    """The keys and limits of the file.

    Raises:
        ConfigurationError: a key belongs to two, or a name stands for nothing.
    """
    faults, keys = Faults(), dict[str, Identity]()
    models, backends = list[tuple[str, tuple[Limit, ...]]](), dict[str, tuple[Limit, ...]]()
    for tenant, spec in policy.tenants.items():
        with faults.kept():
            _add_keys(policy, tenant, spec, keys)
    for pattern, limits in policy.limits.models.items():
        with faults.kept():
            models.append((pattern, _limits(policy, f"model:{pattern}", limits, f"limits.models.{pattern}")))
    for name, limits in policy.limits.backends.items():
        with faults.kept():
            if name not in policy.backends:
                raise ConfigurationError(f"there is no backend `{name}`", where=f"limits.backends.{name}")
            backends[name] = _limits(policy, f"backend:{name}", limits, f"limits.backends.{name}")
    faults.tell()
    return Tenancy(keys=keys, models=tuple(models), backends=backends)


def _add_keys(policy: PolicyFile, tenant: str, spec: TenantSpec, keys: dict[str, Identity]) -> None:
    faults = Faults()
    for where, digest, identity in _identities(policy, tenant, spec):
        with faults.kept():
            if digest in keys:
                owner = keys[digest].tenant
                raise ConfigurationError(
                    f"the same key belongs to `{owner}` too" if owner != tenant else "the same key is there twice",
                    where=where,
                )
            keys[digest] = identity
    faults.tell()


def _identities(policy: PolicyFile, tenant: str, spec: TenantSpec) -> Iterable[tuple[str, str, Identity]]:
    """Each key of a tenant: where it stands, its digest, and what it stands for."""
    where = f"tenants.{tenant}"
    faults = Faults()
    with faults.kept():
        _check_names(policy, spec, where)
    theirs = faults.either(
        partial(_limits, policy, f"tenant:{tenant}", spec.limits, f"{where}.limits"), tuple[Limit, ...]
    )
    team = _limits(policy, f"team:{spec.team}", policy.limits.teams.get(spec.team or "", []), "limits.teams")
    guarded = partial(build_guards, spec.guards, f"{where}.guards", client_s=policy.defaults.timeouts.client_s)
    guards = faults.either(guarded, lambda: None)
    faults.tell()
    common = {
        "tenant": tenant,
        "team": spec.team or "",
        "precedence": Precedence(priority=spec.priority, weight=spec.weight),
        "routes": frozenset(spec.routes) if spec.routes is not None else None,
        "models": tuple(spec.models) if spec.models is not None else None,
        "guards": guards,
        "task": task_rule(spec.task, policy.routes, where=f"{where}.task") if spec.task is not None else None,
    }
    for index, digest in enumerate(spec.keys_sha256):
        yield f"{where}.keys_sha256[{index}]", digest, Identity(limits=theirs + team, **common)  # type: ignore[arg-type]  # its own fields
    for name, key in spec.keys.items():
        own = _limits(policy, f"key:{tenant}/{name}", key.limits, f"{where}.keys.{name}.limits")
        expires = key.expires.timestamp() if key.expires is not None else None
        identity = Identity(key=name, limits=own + theirs + team, expires_unix_s=expires, **common)  # type: ignore[arg-type]  # likewise
        yield f"{where}.keys.{name}", key.sha256, identity


def _check_names(policy: PolicyFile, spec: TenantSpec, where: str) -> None:
    faults, known = Faults(), ", ".join(policy.routes) or "none"
    for route in spec.routes or ():
        if route not in policy.routes:
            faults.add(
                ConfigurationError(f"there is no route `{route}`", where=f"{where}.routes", hint=f"known: {known}")
            )
    if spec.team is not None and spec.team not in policy.limits.teams:
        hint = f"add `limits: {{teams: {{{spec.team}: []}}}}`"
        faults.add(ConfigurationError(f"there is no team `{spec.team}`", where=f"{where}.team", hint=hint))
    faults.tell()


def _limits(policy: PolicyFile, scope: str, specs: Sequence[LimitSpec], where: str) -> tuple[Limit, ...]:
    zone = read_zone(policy.limits.time_zone)
    limits = tuple(
        Limit(
            scope=scope,
            measure=spec.measure,
            amount=spec.amount,
            period=spec.period,
            zone=zone,
            priced_only=spec.usd is not None and spec.unpriced != "allow",
        )
        for spec in specs
    )
    names = [limit.name for limit in limits]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ConfigurationError("the same measure is limited twice in the same period", where=f"{where}[{index}]")
    return limits


@lru_cache(maxsize=1024)
def _any_answers(patterns: tuple[str, ...], model: str) -> bool:
    return any(_answers(pattern, model) for pattern in patterns)


def _answers(pattern: str, model: str) -> bool:
    """Whether a pattern stands for a model by either of its names: to Ollama, ``m`` and ``m:latest`` are the same."""
    matches = name_pattern(pattern).fullmatch
    other = model.removesuffix(_LATEST) if model.endswith(_LATEST) else f"{model}{_LATEST}"
    return matches(model) is not None or matches(other) is not None
