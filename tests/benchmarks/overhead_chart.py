"""Draws the CPU time of everybody in the overhead report, as SVG.

    python tests/benchmarks/overhead_chart.py      docs/images/overhead.svg, of tests/benchmarks/out/overhead.json

One panel for each scenario, one bar for each gateway. A line of the grid is ten times the one before.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from figures import short
from overhead_report import REPORT
from servers import ROOT

PANELS = {
    "a16": ("cpu_us_per_request", "a whole answer, 1 KB prompt (a16): \N{MICRO SIGN}s a request"),
    "b16": ("cpu_us_per_request", "a whole answer, 32 KB prompt (b16): \N{MICRO SIGN}s a request"),
    "c16": ("cpu_us_per_chunk", "a stream as fast as it goes (c16): \N{MICRO SIGN}s a chunk"),
    "e200": ("cpu_us_per_chunk", "200 streams, a chunk each 50 ms (e200): \N{MICRO SIGN}s a chunk"),
}
_ROW, _NAMES, _BARS, _VALUES, _TITLE, _GAP = 20, 118, 240, 62, 26, 18
_PANEL = _NAMES + _BARS + _VALUES
_OURS, _THEIRS = "#0b6e99", "#a9b4bd"


def chart(report: Mapping[str, Any]) -> str:
    """The whole picture, two panels a row."""
    shown = [key for key in PANELS if key in report["scenarios"]]
    panels = {key: _values(report, key) for key in shown}
    height = _TITLE + _GAP + _ROW * len(report["servers"])
    rows = math.ceil(len(shown) / 2)
    width, whole = 2 * _PANEL + 3 * _GAP, rows * height + _GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{whole}" viewBox="0 0 {width} {whole}"',
        ' font-family="system-ui, sans-serif" font-size="12" fill="#1c2429" role="img">',
        "<title>CPU time of gateways on loopback, whole process tree; less is better</title>",
        f'<rect width="{width}" height="{whole}" fill="#ffffff"/>',
    ]
    for number, key in enumerate(shown):
        x, y = _GAP + number % 2 * (_PANEL + _GAP), _GAP + number // 2 * height
        lines += [f'<g transform="translate({x},{y})">', *_panel(PANELS[key][1], panels[key]), "</g>"]
    return "\n".join([*lines, "</svg>", ""])


def _values(report: Mapping[str, Any], key: str) -> dict[str, float]:
    servers, field = report["scenarios"][key]["servers"], PANELS[key][0]
    return {name: servers[name][field]["median"] for name in report["servers"] if servers[name][field]}


def _panel(title: str, values: Mapping[str, float]) -> Iterator[str]:
    least = math.floor(math.log10(min(values.values())))
    decades = math.ceil(math.log10(max(values.values()))) - least
    per_decade = _BARS / decades
    bottom = _TITLE + _ROW * len(values) - 4
    yield f'<text y="10" font-weight="600">{title}</text>'
    for decade in range(decades + 1):
        x = _NAMES + decade * per_decade
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="18" y2="{bottom}" stroke="#e3e7ea"/>'
    for row, (name, value) in enumerate(sorted(values.items(), key=lambda item: item[1])):
        y, length = _TITLE + row * _ROW, (math.log10(value) - least) * per_decade
        ours = name == "headrace"
        weight = "600" if ours else "400"
        yield f'<text x="{_NAMES - 8}" y="{y + 10}" text-anchor="end" font-weight="{weight}">{name}</text>'
        colour = _OURS if ours else _THEIRS
        yield f'<rect x="{_NAMES}" y="{y}" width="{length:.1f}" height="13" rx="2" fill="{colour}"/>'
        at = _NAMES + length + 6
        yield f'<text x="{at:.1f}" y="{y + 10}" font-weight="{weight}">{short(value)}</text>'


def main() -> int:
    """Draws it."""
    parser = argparse.ArgumentParser(description="Draws the overhead report as SVG.")
    parser.add_argument("picture", type=Path, nargs="?", default=ROOT / "docs" / "images" / "overhead.svg")
    picture: Path = parser.parse_args().picture
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(chart(json.loads(REPORT.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
