"""The routing benchmark's report: tables, a chart, and whether the goals are met."""

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from figures import table

OURS = "default"
COLUMNS = {
    "ttft_mean_s": "mean TTFT s",
    "ttft_p95_s": "p95 s",
    "ttft_p99_s": "p99 s",
    "hit_ratio": "hit",
    "imbalance": "max/mean load",
    "e2e_mean_s": "mean E2E s",
}


class Goal(NamedTuple):
    """What the default policy is to reach. ``gateways`` above one is against one gateway: a ratio."""

    trace: str
    load: float
    gateways: int
    key: str
    most: float | None = None
    least: float | None = None


GOALS = (
    Goal("conversation", 1.0, 1, "ttft_mean_s", most=1.26),
    Goal("conversation", 1.0, 1, "ttft_p95_s", most=4.4),
    Goal("conversation", 1.0, 1, "hit_ratio", least=0.34),
    Goal("conversation", 1.0, 1, "imbalance", most=1.08),
    Goal("conversation", 1.3, 1, "ttft_mean_s", most=1.48),
    Goal("conversation", 1.0, 4, "ttft_mean_s", most=1.10),
    Goal("synthetic", 1.0, 1, "ttft_mean_s", most=0.86),
    Goal("synthetic", 1.0, 1, "hit_ratio", least=0.68),
    Goal("hot_document", 1.0, 1, "ttft_p99_s", most=1.1),
)
CPU_GOALS_US = {"decision_24_blocks": 30.0, "decision_250_blocks": 150.0, "hashing_48_kb": 100.0}


def verdicts(report: Mapping[str, Any], *, whole: bool) -> list[dict[str, Any]]:
    """Each goal with what was measured; those of the traces only where the whole traces were played."""
    told: list[dict[str, Any]] = []
    for goal in GOALS if whole else ():
        run = _find(report, OURS, goal.trace, goal.load, goal.gateways)
        if run is None:
            continue
        value, what = run[goal.key], f"{goal.trace} {goal.load:g}x {goal.key}"
        if goal.gateways > 1:
            alone = _find(report, OURS, goal.trace, goal.load, 1)
            if alone is None:
                continue
            value, what = value / alone[goal.key], f"{what}, {goal.gateways} gateways to 1"
        told.append(_verdict(what, value, goal.most, goal.least))
    for name, most in CPU_GOALS_US.items():
        told.append(_verdict(f"{name} p50 us", report["cpu_us"][name]["p50"], most, None))
    return told


def tables(report: Mapping[str, Any]) -> Iterator[str]:
    """A table for each trace and number of gateways, then the goals."""
    for trace, about in report["traces"].items():
        runs = [run for run in report["runs"] if run["trace"] == trace]
        for load, gateways in dict.fromkeys((run["load"], run["gateways"]) for run in runs):
            chosen = [run for run in runs if (run["load"], run["gateways"]) == (load, gateways)]
            yield f"\n{trace} ({about['requests']:,} requests) at {load:g}x, {gateways} gateway(s)\n"
            rows = [
                [run["policy"], *(f"{run[key]:.3f}" for key in COLUMNS)]
                for run in sorted(chosen, key=lambda run: float(run["ttft_mean_s"]))
            ]
            yield table(["policy", *COLUMNS.values()], rows)
    yield "\ngoals\n"
    yield table(
        ["goal", "wanted", "measured", "met"],
        [
            [one["goal"], one["wanted"], f"{one['measured']:.3f}", "yes" if one["met"] else "no"]
            for one in report["goals"]
        ],
    )


def chart(report: Mapping[str, Any], path: Path) -> None:
    """The mean time to the first token by policy and load, the best on top; nothing without matplotlib."""
    try:
        figure_class = importlib.import_module("matplotlib.figure").Figure
    except ImportError:
        print("no chart: matplotlib is not installed")
        return
    traces = list(report["traces"])
    figure = figure_class(figsize=(5 * len(traces), 3.6), layout="constrained")
    for axes, trace in zip(figure.subplots(1, len(traces), squeeze=False)[0], traces, strict=True):
        runs = [run for run in report["runs"] if run["trace"] == trace and run["gateways"] == 1]
        usual = sorted((run for run in runs if run["load"] == 1.0), key=lambda run: float(run["ttft_mean_s"]))
        places = {run["policy"]: place for place, run in enumerate(usual)}
        for load in sorted({run["load"] for run in runs}):
            shown = [run for run in runs if run["load"] == load and run["policy"] in places]
            seconds = [run["ttft_mean_s"] for run in shown]
            axes.plot(seconds, [places[run["policy"]] for run in shown], "o", label=f"{load:g}x", alpha=0.8)
        axes.set(title=trace.replace("_", " "), xscale="log", xlabel="mean time to first token (s)")
        axes.set_yticks(range(len(places)), places)
        axes.invert_yaxis()
        axes.grid(visible=True, which="both", axis="x", alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=120)


def _find(report: Mapping[str, Any], policy: str, trace: str, load: float, gateways: int) -> dict[str, Any] | None:
    wanted = (policy, trace, load, gateways)
    found = (run for run in report["runs"] if (run["policy"], run["trace"], run["load"], run["gateways"]) == wanted)
    return next(found, None)


def _verdict(goal: str, measured: float, most: float | None, least: float | None) -> dict[str, Any]:
    met = (most is None or measured <= most) and (least is None or measured >= least)
    wanted = f"<= {most:g}" if most is not None else f">= {least:g}"
    return {"goal": goal, "wanted": wanted, "measured": measured, "met": met}
