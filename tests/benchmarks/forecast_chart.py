"""Draws whether forecasts keep their word: coverage by how long an answer was expected to be, and over time."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from gateway.forecast import Forecast

_BINS = 12
_WINDOW = 1000
_LEVELS = (("p50", 0.5, "#a9b4bd"), ("p80", 0.8, "#5aa0bd"), ("p90", 0.9, "#0b6e99"))


def draw(series: Sequence[tuple[Forecast, int]], path: Path) -> None:
    """Two panels; nothing where matplotlib is not installed."""
    try:
        figure_class = importlib.import_module("matplotlib.figure").Figure
    except ModuleNotFoundError:
        return
    figure = figure_class(figsize=(10, 3.8), layout="constrained")
    by_length, over_time = figure.subplots(1, 2, sharey=True)
    ordered = sorted(series, key=lambda one: one[0].output_tokens_p50)
    bins = [ordered[len(ordered) * n // _BINS : len(ordered) * (n + 1) // _BINS] for n in range(_BINS)]
    middles = [one[len(one) // 2][0].output_tokens_p50 for one in bins]
    windows = range(0, len(series) - _WINDOW + 1, _WINDOW)
    for name, level, colour in _LEVELS:
        by_length.plot(middles, [_within(one, name) for one in bins], "o-", color=colour, label=name)
        shares = [_within(series[start : start + _WINDOW], name) for start in windows]
        over_time.plot([start + _WINDOW for start in windows], shares, color=colour)
        for panel in (by_length, over_time):
            panel.axhline(level, color=colour, linestyle=":", linewidth=1)
    by_length.set(xlabel="median forecast, tokens", ylabel="share of answers within", xscale="symlog", ylim=(0.3, 1))
    by_length.set_xticks([30, 100, 200, 400, 800], ["30", "100", "200", "400", "800"])
    over_time.set(xlabel=f"answers seen (windows of {_WINDOW:,})")
    by_length.legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=110)


def _within(series: Sequence[tuple[Forecast, int]], name: str) -> float:
    return fmean(tokens <= getattr(forecast, f"output_tokens_{name}") for forecast, tokens in series)
