"""Which guards a request would meet, for people and for programs."""

from typing import Any

from gateway.guard_mark import Stage
from gateway.rules.guards import GuardRule, Guards

_IN_STREAMS = {
    "hold": "holds streams",
    "window": "holds back what may begin a match",
    "pass": "looks once streams are out",
}


def guard_lines(guards: Guards | None) -> list[str]:
    """One line for each, in the order in which they look."""
    return [] if guards is None else [f"guard      {_line(rule)}" for rule in guards.rules]


def guards_as_json(guards: Guards | None) -> dict[str, Any]:
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
        for rule in guards.rules
    ]
    return {"guards": told}


def _line(rule: GuardRule) -> str:
    actions = " or ".join(action.value for action in rule.guard.actions)
    how = f"; {_IN_STREAMS[rule.stream]}" if rule.stage is Stage.AFTER else ""
    kind = f" ({rule.kind})" if rule.kind != rule.name else ""
    return f"{rule.stage.value} the answer, {rule.name}{kind}: {actions}{how}; where it cannot look: {_on_error(rule)}"


def _on_error(rule: GuardRule) -> str:
    return "refuse" if rule.refuses else "allow"
