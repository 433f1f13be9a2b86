"""A route with what its policy file says of judges: who judges its answers, its cascade, its shadow."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gateway.errors import ConfigurationError
from gateway.judgement import Judge
from gateway.limits.calendar import read_period
from gateway.limits.limit import NANO, Limit, Measure
from gateway.rules import plugins
from gateway.rules.faults import Faults
from gateway.rules.judging import Judging
from gateway.rules.judging_specs import CascadeStepSpec, JudgeSpec, JudgesSpec, ShadowSpec
from gateway.rules.route import CascadeStep, Route, Shadow, Target
from gateway.rules.tenant_specs import read_zone

Step = Callable[[str], tuple[Any, str]]
"""What a route has under a key, and where that stands in the file."""

ReadTarget = Callable[[str, str], Target]
"""A target as it is written, and where."""


def judged(
    route: Route, step: Step, *, cascade: list[CascadeStepSpec] | None, target: ReadTarget, time_zone: str
) -> Route:
    """The route with its judges, its cascade and its shadow; the same one where it has none of them.

    Raises:
        ConfigurationError: a judge is none, a target stands in two steps, or a step would never come to its turn.
    """
    spec: JudgeSpec | None
    spec, where = step("judge")
    if spec is not None:
        route = replace(route, judging=_judging(spec, where, sample=spec.sample))
    if cascade is not None:
        route = _with_cascade(route, cascade, target)
    shadow, where = step("shadow")
    return route if shadow is None else replace(route, shadow=_shadow(route, shadow, where, target, time_zone))


def _judging(spec: JudgesSpec, where: str, *, sample: float = 1.0) -> Judging:
    if (spec.all is None) == (spec.any is None):
        raise ConfigurationError("has `all` or `any`, one of the two", where=where)
    every = spec.all is not None
    place = f"{where}.{'all' if every else 'any'}"
    faults, judges = Faults(), list[tuple[str, Judge]]()
    for index, one in enumerate((spec.all if every else spec.any) or ()):
        with faults.kept():
            judges.append((_name(one), plugins.build("judge", one, where=f"{place}[{index}]")))
    faults.tell()
    return Judging(judges=tuple(judges), every=every, sample=sample)


def _name(step: str | dict[str, Any]) -> str:
    return step if isinstance(step, str) else str(step.get("use", ""))


def _with_cascade(route: Route, specs: list[CascadeStepSpec], target: ReadTarget) -> Route:
    where = f"routes.{route.name}.cascade"
    _check(route, specs, where)
    faults, groups, judgings = Faults(), list[tuple[Target, ...]](), list[Judging | None]()
    for at, spec in enumerate(specs):
        group: list[Target] = []
        for i, name in enumerate(spec.targets):
            with faults.kept():
                group.append(target(name, f"{where}[{at}].targets[{i}]"))
        groups.append(tuple(group))
        with faults.kept():
            judgings.append(_judging(spec.judge, f"{where}[{at}].judge") if spec.judge is not None else None)
    faults.tell()
    targets = tuple(one for group in groups for one in group)
    if len({(one.backend, one.model) for one in targets}) < len(targets):
        raise ConfigurationError("a target stands in one step, and there once", where=where)
    plain = replace(route, judging=None, cascade=())
    steps = tuple(
        CascadeStep(
            route=replace(plain, targets=group, attempts=route.attempts - (len(specs) - 1 - at)),
            judging=judging,
            serves_unsure=spec.when_unsure == "serve",
            timeout_s=spec.timeout_s,
            keep_alive_s=spec.keep_alive_s,
            max_held_bytes=spec.max_held_bytes,
        )
        for at, (spec, group, judging) in enumerate(zip(specs, groups, judgings, strict=True))
    )
    return replace(route, targets=targets, cascade=steps)


def _check(route: Route, specs: list[CascadeStepSpec], where: str) -> None:
    if route.targets:
        hint = "targets stand in the steps of the cascade"
        raise ConfigurationError("has `targets` or a `cascade`, not both", where=f"routes.{route.name}", hint=hint)
    if len(specs) < 2:  # noqa: PLR2004  # said in the message
        raise ConfigurationError("should have at least two steps", where=where, hint="one backend needs no cascade")
    if route.attempts < len(specs):
        fault = f"`attempts` is {route.attempts}, and the cascade has {len(specs)} steps"
        raise ConfigurationError(fault, where=where, hint="each step needs an attempt of its own")
    for at, spec in enumerate(specs[:-1]):
        if spec.judge is None:
            raise ConfigurationError("must be given", where=f"{where}[{at}].judge", hint="or nothing ever goes further")
    if specs[-1].judge is not None:
        hint = "its answer goes out whatever is said of it: judge it by the route's `judge`"
        raise ConfigurationError("the last step has no judge", where=f"{where}[{len(specs) - 1}].judge", hint=hint)


def _shadow(route: Route, spec: ShadowSpec, where: str, target: ReadTarget, time_zone: str) -> Shadow:
    plain = replace(route, judging=None, cascade=(), hedge=None, attempts=1, targets=(target(spec.to, f"{where}.to"),))
    return Shadow(
        route=plain,
        judging=_judging(spec.judge, f"{where}.judge") if spec.judge is not None else None,
        share=spec.share,
        budget=Limit(
            scope=f"shadow:{route.name}",
            measure=Measure.USD,
            amount=int(spec.usd * NANO),
            period=read_period(spec.per),
            zone=read_zone(time_zone),
        ),
        concurrency=spec.concurrency,
        most_load=spec.most_load,
    )
