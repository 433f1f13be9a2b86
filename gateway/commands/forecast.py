"""``headrace forecast eval FILE``: how well answer lengths are forecast on somebody's own traffic.

``FILE`` has JSON lines, compressed with gzip or not. A row has ``conv``, ``turn``, ``prompt``, ``context_tokens``,
``prev_answer_tokens`` and ``answer_tokens``; ``model`` and ``tenant`` where they are known. ``cold`` is what ships,
before anything was learned; ``online`` forecasts each row and then learns from it, in the order of the file. The
forecasts are those of serving: each row is made into the request that a client would have sent.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from gateway.errors import ConfigurationError
from gateway.learning.forecast_figures import ForecastFigures, RunningMedian
from gateway.learning.forecast_rows import Conversations, Row, entry_of, read_rows
from gateway.ports import Classifier, Observer
from gateway.rules import plugins
from gateway.types import ChatRequest

_MEANING = {
    "tau": "rank correlation (Kendall's tau-b) of median forecast and answer",
    "first_turn_tau": "the same, first turns of conversations only",
    "mae": "mean absolute error of the median forecast, tokens",
    "median_mae": "the same for the running median of the model's answers",
    "class_accuracy": "share in the right class (64, 192, 384, 640 tokens, longer)",
    "p50_coverage": "share of answers within the median forecast",
    "p90_coverage": "share of answers within the 90 % forecast",
    "cpu_us_p50": "CPU time of a forecast, microseconds, median",
    "cpu_us_p99": "the same, 99th percentile",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    evaluate = actions.add_parser("eval", help="measure the forecast on rows of answered prompts")
    evaluate.add_argument("file", type=Path, help="JSON lines, plain or gzip")
    evaluate.add_argument("--classify", default="learned_length", help="the classifier to measure (learned_length)")
    evaluate.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Prints the figures."""
    found = evaluate(arguments.file, arguments.classify)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        print("\n".join(_as_text(found)))
    return 0


def evaluate(file: Path, classify: str) -> Mapping[str, Any]:
    """The figures of a classifier, cold and online, on the rows of ``file``.

    Raises:
        ConfigurationError: a row is none (with its line), there is none, or there is no such classifier.
    """
    cold, online = _Contender(classify), _Contender(classify)
    conversations = Conversations()
    medians: defaultdict[tuple[str, str], RunningMedian] = defaultdict(RunningMedian)
    rows = 0
    for rows, row in enumerate(read_rows(file), start=1):  # noqa: B007  # counted for the report
        request = conversations.request(row)
        median = medians[row.tenant, row.model]
        rival = median.median(row.answer_tokens)
        cold.forecast(request, row, rival)
        online.forecast(request, row, rival)
        online.learn(request, row)
        median.add(row.answer_tokens)
    if not rows:
        raise ConfigurationError("there is no row in it", file=str(file))
    return {"rows": rows, "cold": cold.figures.figures(), "online": online.figures.figures()}


class _Contender:
    """A classifier and its figures."""

    def __init__(self, classify: str) -> None:
        self._classifier: Classifier = plugins.build("classify", classify, where="--classify")
        self.figures = ForecastFigures()

    def forecast(self, request: ChatRequest, row: Row, rival: int) -> None:
        begun_ns = time.thread_time_ns()
        forecast = self._classifier.forecast(request)
        cpu_us = (time.thread_time_ns() - begun_ns) / 1000
        self.figures.add(forecast, row.answer_tokens, first_turn=row.turn == 0, median=rival, cpu_us=cpu_us)

    def learn(self, request: ChatRequest, row: Row) -> None:
        if isinstance(self._classifier, Observer):
            self._classifier.observe(entry_of(request, row))


def _as_text(found: Mapping[str, Any]) -> list[str]:
    lines = [f"{found['rows']} rows", "", f"{'':16} {'cold':>8} {'online':>8}"]
    for name, meaning in _MEANING.items():
        cold, online = (_short(found[run][name]) for run in ("cold", "online"))
        lines.append(f"{name:16} {cold:>8} {online:>8}  {meaning}")
    return lines


def _short(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if abs(value) <= 1 else f"{value:.1f}"
