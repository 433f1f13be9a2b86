"""``headrace explain policy.yaml --success``: what was learned of success, route by route, from the state directory."""

from pathlib import Path
from typing import Any

from gateway.clock import SystemClock
from gateway.learning.kept_state import LEARNED_FOLDER
from gateway.learning.learning import kept_records
from gateway.rules.world import World
from gateway.steering.steering import Steering

_SEAT = "explain"


def success_known(world: World, state_dir: Path) -> dict[str, Any]:
    """The report of each route that steers, as a gateway that starts now would have it."""
    steering = Steering(clock=SystemClock(), seat=_SEAT)
    steering.follow(world.routes)
    for record in kept_records(state_dir / LEARNED_FOLDER, steering):
        steering.resume(record)
    return steering.report()


def as_text(report: dict[str, Any]) -> list[str]:
    """The report for people."""
    if not report:
        return ["no route steers by success: see `headrace plugins success`"]
    lines: list[str] = []
    for route, known in report.items():
        lines += ["", f"route      {route}"] if lines else [f"route      {route}"]
        lines += [_chance(one) for one in known["chances"]] or ["   no verdict yet"]
        if known["chances_left_out"]:
            lines.append(f"   and {known['chances_left_out']} more")
        if known["requests_per_task"] is not None:
            lines.append(f"   {known['requests_per_task']:.1f} requests a task")
        if "explored" in known:
            explored = known["explored"]
            lines.append(f"explored   {explored['requests']} requests, ${explored['usd']:.6f} dearer than seemed best")
        if "canary" in known:
            lines.append(f"canary     {known['canary']['why']}")
    return lines


def _chance(one: dict[str, Any]) -> str:
    where = f"{one['backend']}/{one['model']}"
    chance = f"{one['success']:.1%} ({one['low']:.1%} to {one['high']:.1%})"
    return f"   {where:<28} {one['kind']:<20} {chance:<26} {one['tasks']:.1f} tasks"
