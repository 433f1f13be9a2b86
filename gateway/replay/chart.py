"""A replay's results as a picture."""

import importlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from gateway.errors import ConfigurationError
from gateway.replay.sketch import Sketch, value_of
from gateway.replay.tally import Window

_WIDTH_IN, _HEIGHT_IN = 14, 4.2


class Drawer(Protocol):
    """Draws results, by policy, into a file whose ending says whether it becomes a PNG, SVG or PDF."""

    def __call__(self, path: Path, results: Mapping[str, Sequence[Window]], *, title: str) -> None:
        """Raises ``ConfigurationError`` where the file cannot be written."""
        ...


def drawer() -> Drawer:
    """What draws; asked for before a long replay, not after it.

    Raises:
        ConfigurationError: the library for it is not installed.
    """
    try:
        figure_class = importlib.import_module("matplotlib.figure").Figure
    except ImportError as error:
        hint = "pip install 'headrace[charts]'"
        raise ConfigurationError("matplotlib, which draws the chart, is not installed", hint=hint) from error
    return partial(_draw, figure_class)


def _draw(figure_class: Any, path: Path, results: Mapping[str, Sequence[Window]], *, title: str) -> None:
    figure = figure_class(figsize=(_WIDTH_IN, _HEIGHT_IN), layout="constrained")
    figure.suptitle(title)
    shares, over_time, loads = figure.subplots(1, 3)
    for name, windows in results.items():
        _draw_shares(shares, name, windows)
        _draw_over_time(over_time, name, windows)
    _draw_loads(loads, results)
    shares.legend()
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the chart cannot be written: {error}", file=str(path)) from error


def _draw_shares(axes: Any, name: str, windows: Sequence[Window]) -> None:
    """The share of requests whose first token came within so long."""
    whole = Sketch()
    for window in windows:
        whole.merge(window.ttft_s)
    seconds, shares, below = [], [], 0
    for bin_ in sorted(whole.bins):
        below += whole.bins[bin_]
        seconds.append(value_of(bin_))
        shares.append(below / whole.count)
    axes.step(seconds, shares, where="post", label=name)
    axes.set(xscale="log", xlabel="time to first token (s)", ylabel="share of requests", ylim=(0, 1))
    axes.grid(visible=True, alpha=0.3)


def _draw_over_time(axes: Any, name: str, windows: Sequence[Window]) -> None:
    axes.plot([window.first_s for window in windows], [window.ttft_s.mean() for window in windows], label=name)
    axes.set(xlabel="time in the trace (s)", ylabel="mean time to first token (s)", yscale="log")
    axes.grid(visible=True, alpha=0.3)


def _draw_loads(axes: Any, results: Mapping[str, Sequence[Window]]) -> None:
    """What each engine has read, against the mean: a bar each, the most loaded first."""
    width = 0.8 / len(results)
    for place, (name, windows) in enumerate(results.items()):
        loads = sorted(
            (sum(engine) for engine in zip(*(window.prefill_s for window in windows), strict=True)), reverse=True
        )
        mean = sum(loads) / len(loads) or 1.0
        axes.bar([at + place * width for at in range(len(loads))], [load / mean for load in loads], width, label=name)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set(xlabel="engine, the most loaded first", ylabel="seconds of reading, against the mean")
