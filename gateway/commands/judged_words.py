"""A route's judges, cascade and shadow in words, and what judges said of an answer."""

from collections.abc import Sequence

from gateway.limits.refusal import words
from gateway.rules.judging import Judging
from gateway.rules.route import Route
from gateway.stores.kept_verdicts import KeptVerdict

_SAID = {True: "passed", False: "failed", None: "cannot say"}


def judging_lines(route: Route) -> list[str]:
    """What becomes of an answer on this route: who judges it, and when the next step of a cascade is asked."""
    lines = []
    for number, step in enumerate(route.cascade, start=1):
        judged = f"held until {_judges(step.judging)}" if step.judging is not None else "goes out as it comes"
        lines.append(f"step {number}     {_targets(step.route)}: {judged}")
    if route.judging is not None:
        share = "" if route.judging.sample >= 1 else f", {route.judging.sample:.3g} of all"
        lines.append(f"judged     after it was served: {_judges(route.judging)}{share}")
    if route.shadow is not None:
        judged = f", {_judges(route.shadow.judging)}" if route.shadow.judging is not None else ""
        to = _targets(route.shadow.route)
        lines.append(f"shadow     {route.shadow.share:.3g} of all to {to} too{judged}; {words(route.shadow.budget)}")
    return lines


def verdict_lines(verdicts: Sequence[KeptVerdict]) -> list[str]:
    """A line for each answer that was judged, and one for each of its judges."""
    lines = []
    for kept in verdicts:
        place = f"attempt {kept.attempt}" if kept.attempt else "no attempt of its own"
        score = f", score {kept.score:.3g}" if kept.score is not None else ""
        further = f"; went further for {kept.escalated_for}" if kept.escalated_for else ""
        lines.append(
            f"{kept.occasion:<10} {kept.backend}/{kept.model} ({place}): {_SAID[kept.success]}{score}{further}"
        )
        for judge, success, reason in kept.judges:
            lines.append(f"           {judge}: {_SAID[success]}{f' ({reason})' if reason else ''}")
    return lines


def _judges(judging: Judging) -> str:
    names = [name for name, _ in judging.judges]
    if len(names) == 1:
        return f"`{names[0]}` passes it"
    return f"{'all' if judging.every else 'any'} of {', '.join(f'`{name}`' for name in names)} pass it"


def _targets(route: Route) -> str:
    return ", ".join(one.backend if one.model is None else f"{one.backend}/{one.model}" for one in route.targets)
