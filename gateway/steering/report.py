"""What was learned of success, for people and their programs: bounded, whatever clients do."""

import math
from typing import Any

from gateway.rules.steer import Steer
from gateway.steering.canary import Arm, Trial
from gateway.steering.evidence import Evidence
from gateway.steering.explore import Explored
from gateway.steering.telling import told_of_trial

MOST_CELLS = 64


def route_report(
    route: str, steer: Steer, evidence: Evidence, *, now_unix_s: float, explored: Explored, trial: Trial | None
) -> dict[str, Any]:
    """What is known of a route: its chances with their intervals, what exploring took, and how its canary stands."""
    known = evidence.known(route, now_unix_s=now_unix_s, half_life_s=steer.half_life_s)
    cells = []
    for (kind, backend, model), chance in known[:MOST_CELLS]:
        success = chance.success(steer.confidence)
        cells.append(
            {
                "backend": backend,
                "model": model,
                "kind": kind,
                "success": round(success.mean, 4),
                "low": round(success.low, 4),
                "high": round(success.high, 4),
                "tasks": round(success.n, 2),
            }
        )
    told: dict[str, Any] = {
        "half_life_s": steer.half_life_s,
        "confidence": steer.confidence,
        "requests_per_task": round(known[0][1].calls, 2) if known else None,
        "chances": cells,
        "chances_left_out": max(len(known) - MOST_CELLS, 0),
    }
    if steer.explore is not None:
        told["explored"] = {"share": steer.explore.share, "requests": explored.requests, "usd": round(explored.usd, 6)}
    if trial is not None:
        told["canary"] = _trial_report(trial)
    return told


def _trial_report(trial: Trial) -> dict[str, Any]:
    standing = trial.standing()
    return {
        "to": trial.canary.name,
        "share": trial.canary.share,
        "state": standing.state,
        "since_unix_s": standing.since_unix_s if math.isfinite(standing.since_unix_s) else None,
        "canary": _arm_report(standing.canary),
        "incumbent": _arm_report(standing.incumbent),
        "evidence": {
            "success_is_rarer": float(f"{standing.rarer:.4g}"),
            "a_success_costs_more": float(f"{standing.dearer:.4g}"),
            "a_success_costs_less": float(f"{standing.cheaper:.4g}"),
            "needed_to_roll_back": standing.needed,
        },
        "why": told_of_trial(trial.route, trial.canary, standing),
    }


def _arm_report(arm: Arm) -> dict[str, Any]:
    return {
        "tasks": round(arm.tasks, 3),
        "successes": round(arm.successes, 3),
        "usd": round(arm.usd, 9),
        "success_rate": arm.success_rate,
        "usd_per_success": arm.usd_per_success,
    }
