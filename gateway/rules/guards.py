"""The ``guards`` of a route or a tenant, as they run."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.errors import ConfigurationError
from gateway.guard import Guard, WindowGuard
from gateway.guard_mark import WORD, Action, Stage
from gateway.rules import plugins
from gateway.rules.faults import Faults
from gateway.rules.guard_specs import GuardSpec, StreamMode

VALUE = "value"
"""The name of an annotation that a guard makes of what it found; others are allowed by the policy file, by name."""

_MOST_WINDOW_CHARS = 1024


@dataclass(frozen=True, kw_only=True)
class GuardRule:
    """A guard as it runs; see ``GuardSpec``. ``places`` bound how many questions to its service are under way."""

    name: str
    kind: str
    guard: Guard
    stage: Stage
    refuses: bool
    timeout_s: float
    concurrency: int
    most_bytes: int
    stream: StreamMode
    annotations: frozenset[str]
    places: asyncio.Semaphore = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", asyncio.Semaphore(self.concurrency))

    def allowed(self, annotations: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Those that may be told: of a name that is allowed, once each, and of one word."""
        words = {name: value for name, value in annotations if name in self.annotations and WORD.match(value)}
        return tuple(words.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The guards of a route or a tenant, each in the order of the file."""

    before: tuple[GuardRule, ...] = ()
    after: tuple[GuardRule, ...] = ()

    @property
    def rules(self) -> tuple[GuardRule, ...]:
        """All of them."""
        return self.before + self.after

    def and_then(self, others: "Guards | None") -> "Guards":
        """These, and others after them."""
        if others is None:
            return self
        return Guards(before=self.before + others.before, after=self.after + others.after)


def build_guards(specs: Sequence[GuardSpec], where: str, *, client_s: float) -> Guards | None:
    """The guards that stand at ``where``; ``None`` where there are none.

    ``client_s`` is for how long an answer may stand still on its way to a client.

    Raises:
        ConfigurationError: one is none, or cannot do what is asked of it.
    """
    faults, rules = Faults(), list[GuardRule]()
    for at, spec in enumerate(specs):
        with faults.kept():
            rule = _rule(spec, f"{where}[{at}]")
            if any((rule.name, rule.stage) == (other.name, other.stage) for other in rules):
                hint = "give one of them another `name`"
                raise ConfigurationError(f"there are two guards `{rule.name}`", where=f"{where}[{at}]", hint=hint)
            rules.append(rule)
    faults.tell()
    after = tuple(rule for rule in rules if rule.stage is Stage.AFTER)
    if sum(rule.timeout_s for rule in after) >= client_s:
        fault = f"the guards after an answer may take as long as `timeouts.client_s` ({client_s:g} s)"
        raise ConfigurationError(fault, where=where, hint="lower their `timeout_s`")
    before = tuple(rule for rule in rules if rule.stage is Stage.BEFORE)
    return Guards(before=before, after=after) if rules else None


def guards_of(step: Callable[[str], tuple[Any, str]]) -> Guards | None:
    """The guards of a route.

    Raises:
        ConfigurationError: as ``build_guards``.
    """
    specs, where = step("guards")
    return build_guards(specs, where, client_s=step("timeouts")[0].client_s)


def _rule(spec: GuardSpec, where: str) -> GuardRule:
    guard, kind, stage = plugins.build("guard", spec.use, where=where), str(spec.use["use"]), Stage(spec.when)
    if stage not in guard.stages:
        raise ConfigurationError(f"`{kind}` cannot look {stage.value} the answer", where=f"{where}.when")
    if stage is Stage.BEFORE and "stream" in spec.model_fields_set:
        raise ConfigurationError("`stream` is for guards after the answer", where=f"{where}.stream")
    if fault := _cannot_stream(guard, spec.stream):
        raise ConfigurationError(fault, where=f"{where}.stream", hint="`hold` holds a stream until its end")
    return GuardRule(
        name=spec.name or kind.partition(":")[2].lower() or kind,
        kind=kind,
        guard=guard,
        stage=stage,
        refuses=spec.on_error == "refuse",
        timeout_s=spec.timeout_s,
        concurrency=spec.concurrency,
        most_bytes=spec.most_bytes,
        stream=spec.stream,
        annotations=frozenset({VALUE, *spec.annotations}),
    )


def _cannot_stream(guard: Guard, mode: StreamMode) -> str:
    """Why a guard cannot look at streams in this way; empty where it can."""
    if mode == "pass" and set(guard.actions) != {Action.ANNOTATE}:
        return "`pass` is for guards that only annotate: the answer is out before they look"
    if mode != "window":
        return ""
    if not isinstance(guard, WindowGuard):
        return "`window` is for guards that can tell from a part of a text"
    longest = guard.longest_chars
    if longest is None:
        return "`window` needs patterns that are bounded: `[0-9]{1,20}` in place of `[0-9]+`"
    if longest > _MOST_WINDOW_CHARS:
        return f"`window` holds at most {_MOST_WINDOW_CHARS} characters, and a pattern here may need {longest}"
    return ""
