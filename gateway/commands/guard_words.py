"""Which guards a request would meet, for people and for programs."""

from typing import Any

from gateway.guard_mark import Stage
from gateway.rules.guards import GuardRule, Guards
from gateway.types import Operation
from gateway.wire.guarded_formats import answers_in_words

_IN_STREAMS = {
    "hold": "holds streams",
    "window": "holds back what may begin a match",
    "pass": "looks once streams are out",
}


def guard_lines(guards: Guards | None, operation: Operation) -> list[str]:
    """One line for each, in the order in which they look."""
    return [] if guards is None else [f"guard      {_line(rule)}" for rule in _met(guards, operation)]


def guards_as_json(guards: Guards | None, operation: Operation) -> dict[str, Any]:
    """The same for programs; nothing where there are none."""
    if guards is None:
        return {}
    told = [
        {
            "name": rule.name,
            "when": rule.stage.value,
            "use": rule.kind,
            "actions": [action.value for action in rule.guard.actions],
            "on_error": _on_error(rule),
            "timeout_s": rule.timeout_s,
            **({"stream": rule.stream} if rule.stage is Stage.AFTER else {}),
        }
        for rule in _met(guards, operation)
    ]
    return {"guards": told}


def _met(guards: Guards, operation: Operation) -> tuple[GuardRule, ...]:
    return guards.rules if answers_in_words(operation) else guards.before


def _line(rule: GuardRule) -> str:
    actions = " or ".join(action.value for action in rule.guard.actions)
    how = f"; {_IN_STREAMS[rule.stream]}" if rule.stage is Stage.AFTER else ""
    kind = f" ({rule.kind})" if rule.kind != rule.name else ""
    return f"{rule.stage.value} the answer, {rule.name}{kind}: {actions}{how}; where it cannot look: {_on_error(rule)}"


def _on_error(rule: GuardRule) -> str:
    return "refuse" if rule.refuses else "allow"
