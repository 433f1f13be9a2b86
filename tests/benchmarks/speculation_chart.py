"""Draws what the speculation benchmark measured: gain by kind, how far drafts hold, and whether confidence is kept.

    python tests/benchmarks/speculation_chart.py      docs/images/speculation.png, of out/speculation.json

Needs matplotlib, which the extra `charts` brings.
"""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from speculation import OUT

PNG = Path(__file__).resolve().parents[2] / "docs" / "images" / "speculation.png"
_COLOURS = ("#0b6e99", "#e08e1b", "#a9b4bd")


def main() -> int:
    """Draw."""
    ArgumentParser(description=__doc__).parse_args()
    report = json.loads(OUT.read_text(encoding="utf-8"))
    figure, (gains, holds, keeps) = plt.subplots(1, 3, figsize=(13, 4), width_ratios=(2, 1, 1.2))
    _gains(gains, report["speedups"])
    _holds(holds, report["right_by_position"])
    _keeps(keeps, report)
    for axes in (gains, holds, keeps):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
    figure.tight_layout()
    figure.savefig(PNG, dpi=110)
    return 0


def _gains(axes: Any, speedups: dict[str, Any]) -> None:
    kinds = list(next(iter(speedups.values())))
    width = 0.8 / len(speedups)
    for number, (temperature, by_kind) in enumerate(speedups.items()):
        shown = [(place, by_kind[kind]["speedup"]) for place, kind in enumerate(kinds) if kind in by_kind]
        places = [place + (number - (len(speedups) - 1) / 2) * width for place, _ in shown]
        label = f"temperature {float(temperature):g}"
        axes.bar(places, [gain for _, gain in shown], width, label=label, color=_COLOURS[number % 3])
    axes.axhline(1, color="#1c2429", linewidth=0.8)
    axes.set_xticks(range(len(kinds)), kinds, rotation=30, ha="right")
    axes.set_title("tokens a CPU second, times plain decoding", fontsize=10)
    axes.legend(fontsize=8)


def _holds(axes: Any, right: list[float]) -> None:
    axes.plot(range(1, len(right) + 1), right, marker="o", markersize=3, color=_COLOURS[0])
    axes.set_ylim(0, 1)
    axes.set_xlabel("place in the draft")
    axes.set_title("right, if all before it were", fontsize=10)


def _keeps(axes: Any, report: dict[str, Any]) -> None:
    axes.plot([0, 1], [0, 1], color="#1c2429", linewidth=0.8)
    for number, (name, source) in enumerate(report["sources"].items()):
        bins = [
            (c / n, p / n)
            for c, p, n in zip(source["confidence"], source["probability"], source["judged"], strict=True)
            if n >= 20
        ]
        if bins:
            colour = (*_COLOURS, "#7a4fa3", "#4f8a3c")[number % 5]
            axes.plot(*zip(*bins, strict=True), marker="o", markersize=3, label=name, color=colour)
    axes.set_xlabel("confidence")
    axes.set_title(f"probability (error {report['calibration_error']:.3f})", fontsize=10)
    axes.legend(fontsize=8)


if __name__ == "__main__":
    sys.exit(main())
