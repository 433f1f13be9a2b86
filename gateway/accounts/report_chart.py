"""A report as a picture: what a success costs and how often there is one, with how sure that is."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gateway.accounts.intervals import Interval
from gateway.accounts.report import Report
from gateway.accounts.report_line import Line
from gateway.errors import ConfigurationError

MOST_BARS = 40

_WIDTH_IN, _HEIGHT_IN_PER_BAR, _LEAST_HEIGHT_IN = 12.0, 0.35, 2.5


def draw(report: Report, path: Path) -> None:
    """Draws the lines of a report into a file, whose ending says whether it becomes a PNG, SVG or PDF.

    Raises:
        ConfigurationError: the library for it is not installed, or the file cannot be written.
    """
    try:
        figure_class = importlib.import_module("matplotlib.figure").Figure
    except ImportError as error:
        hint = "pip install 'headrace[charts]'"
        raise ConfigurationError("matplotlib, which draws the chart, is not installed", hint=hint) from error
    lines = (report.lines or (report.total,))[:MOST_BARS]
    height_in = max(_LEAST_HEIGHT_IN, 1.5 + _HEIGHT_IN_PER_BAR * len(lines))
    figure = figure_class(figsize=(_WIDTH_IN, height_in), layout="constrained")
    names = [" · ".join(one.by.values()) or "all" for one in lines]
    left, middle, right = figure.subplots(1, 3, sharey=True)
    _bars(left, names, [float(one.priced_cost_usd) for one in lines], title="cost, US dollars")
    costs = [one.tasks.cost_per_success_at_least_usd for one in lines]
    _bars(middle, names, costs, [one.tasks.cost_per_success_interval for one in lines], title="US dollars a success")
    rates = [one.tasks.success_rate for one in lines]
    _bars(right, names, rates, [one.tasks.success_rate_interval for one in lines], title="successes of judged tasks")
    left.invert_yaxis()
    right.set_xlim(0, 1)
    figure.suptitle(_title(report, lines))
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the chart cannot be written: {error}", file=str(path)) from error


def _title(report: Report, lines: Sequence[Line]) -> str:
    more = f", the first {len(lines)} of {len(report.lines)}" if len(lines) < len(report.lines) else ""
    return f"by {', '.join(report.by) or 'nothing'}{more}; bars hold in 95 of 100 cases"


def _bars(
    axes: Any,
    names: Sequence[str],
    values: Sequence[float | None],
    intervals: Sequence[Interval | None] = (),
    *,
    title: str,
) -> None:
    places = range(len(names))
    axes.barh(places, [value or 0.0 for value in values], color="#5b8db8")
    axes.set_yticks(places, names)
    axes.set_title(title)
    for place, (value, interval) in enumerate(zip(values, intervals, strict=False)):
        if value is not None and interval is not None:
            low, high = max(value - interval[0], 0.0), max(interval[1] - value, 0.0)
            axes.errorbar(value, place, xerr=[[low], [high]], color="#333333", capsize=3)
