"""How well answer lengths are forecast, beside what else could be said of them, on rows of answered prompts.

    python tests/benchmarks/forecast.py ROWS.jsonl.gz                     the rivals, and a model that is replaced
    python tests/benchmarks/forecast.py ROWS.jsonl.gz --unseen FOLDER     unseen models too: AlpacaEval's outputs
    python tests/benchmarks/forecast.py ROWS.jsonl.gz --trees             and the bound: boosted trees, offline

All that learn do so online, in the order of the rows; figures are those of the second half, which holds conversations
that nobody saw before, and of all rows. The trees are trained on the first half at leisure (scikit-learn). Writes
``out/forecast.json`` and, where matplotlib is installed, ``out/forecast.png``; prints tables.
"""

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figures import table
from forecast_chart import draw
from forecast_trees import tree_forecasts
from forecast_unseen import replaced, unseen

from gateway.forecast import Forecast
from gateway.learning.forecast_figures import ForecastFigures, RunningMedian
from gateway.learning.forecast_rows import Conversations, Row, entry_of, read_rows
from gateway.rules import plugins
from gateway.types import ChatRequest

OUT = Path(__file__).with_name("out")
TREES = "gradient-boosted trees, offline"
OURS = "learned_length"
CONSTANT, RUNNING, CONVERSATION = "constant median (in hindsight)", "running median", "mean of the conversation"

_POINTS = {CONSTANT, RUNNING, CONVERSATION}
"""Who says one number, and nothing of how far off it may be."""

_SHOWN = {
    "tau": "tau", "first_turn_tau": "first turn", "mae": "MAE", "class_accuracy": "class", "p50_coverage": "in p50",
    "p90_coverage": "in p90", "cpu_us_p50": "\N{MICRO SIGN}s p50", "cpu_us_p99": "\N{MICRO SIGN}s p99",
}  # fmt: skip


@dataclass(slots=True)
class Contender:
    """One way to forecast, and how it did. ``forecast`` sees the row before its answer, ``learn`` after."""

    forecast: Callable[[ChatRequest, Row], Forecast]
    learn: Callable[[ChatRequest, Row], None]
    whole: ForecastFigures = field(default_factory=ForecastFigures)
    half: ForecastFigures = field(default_factory=ForecastFigures)
    observe_us: list[float] = field(default_factory=list)


def main() -> int:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--unseen", type=Path, help="a folder with AlpacaEval's outputs, one JSON file a model")
    parser.add_argument("--trees", action="store_true", help="train the bound, too: minutes")
    arguments = parser.parse_args()
    rows = list(read_rows(arguments.rows))
    contenders, series = compete(rows)
    report: dict[str, Any] = {
        "rows": len(rows),
        "contenders": {
            name: {"all": dict(one.whole.figures()), "second_half": dict(one.half.figures())}
            for name, one in contenders.items()
        },
        "observe_us": _quantiles(contenders[OURS].observe_us),
        "replaced": replaced(rows),
    }
    if arguments.trees:
        report["contenders"][TREES] = {"second_half": _of_trees(rows)}
    if arguments.unseen is not None:
        report["unseen"] = unseen(arguments.unseen)
    print(*tables(report), sep="\n\n")
    OUT.mkdir(exist_ok=True)
    OUT.joinpath("forecast.json").write_text(json.dumps(report, indent=2) + "\n")
    draw(series, OUT / "forecast.png")
    return 0


def compete(rows: list[Row]) -> tuple[Mapping[str, Contender], list[tuple[Forecast, int]]]:
    """Everybody forecasts and learns each row; and ours, forecast by forecast, with what came."""
    contenders = _contenders(statistics.median_low(row.answer_tokens for row in rows))
    conversations, median = Conversations(), RunningMedian()
    series = []
    for place, row in enumerate(rows):
        request, rival = conversations.request(row), median.median(row.answer_tokens)
        for name, one in contenders.items():
            begun_ns = time.thread_time_ns()
            forecast = one.forecast(request, row)
            cpu_us = (time.thread_time_ns() - begun_ns) / 1000
            for figures in (one.whole, one.half)[: 1 + (2 * place >= len(rows))]:
                figures.add(forecast, row.answer_tokens, first_turn=row.turn == 0, median=rival, cpu_us=cpu_us)
            begun_ns = time.thread_time_ns()
            one.learn(request, row)
            one.observe_us.append((time.thread_time_ns() - begun_ns) / 1000)
            if name == OURS:
                series.append((forecast, row.answer_tokens))
        median.add(row.answer_tokens)
    return contenders, series


def _contenders(constant_tokens: int) -> Mapping[str, Contender]:
    def plugin(name: str, *, learns: bool = True) -> Contender:
        classifier: Any = plugins.build("classify", name, where=name)
        return Contender(
            lambda request, _: classifier.forecast(request),
            (lambda request, row: classifier.observe(entry_of(request, row))) if learns else _nothing,
        )

    medians: defaultdict[str, RunningMedian] = defaultdict(RunningMedian)

    def running(_: ChatRequest, row: Row) -> Forecast:
        return _point(medians[row.model].median(constant_tokens))

    def of_conversation(request: ChatRequest, row: Row) -> Forecast:
        answers = row.prev_answer_tokens
        return _point(round(statistics.fmean(answers))) if answers else running(request, row)

    return {
        CONSTANT: Contender(lambda *_: _point(constant_tokens), _nothing),
        RUNNING: Contender(running, lambda _, row: medians[row.model].add(row.answer_tokens)),
        CONVERSATION: Contender(of_conversation, _nothing),
        "by_length": plugin("by_length"),
        "learned_length, as shipped": plugin(OURS, learns=False),
        OURS: plugin(OURS),
    }


def _point(tokens: int) -> Forecast:
    return Forecast(prompt_tokens=0, output_tokens_p50=tokens, output_tokens_p90=tokens)


def _nothing(*_: object) -> None:
    pass


def _of_trees(rows: list[Row]) -> Mapping[str, float | None]:
    figures, second = ForecastFigures(), rows[(len(rows) + 1) // 2 :]
    for forecast, row in zip(tree_forecasts(rows), second, strict=True):
        figures.add(forecast, row.answer_tokens, first_turn=row.turn == 0, median=0, cpu_us=0.0)
    return figures.figures()


def _quantiles(values: list[float]) -> Mapping[str, float]:
    ordered = sorted(values)
    return {"p50": ordered[len(ordered) // 2], "p99": ordered[len(ordered) * 99 // 100]}


def tables(report: Mapping[str, Any]) -> list[str]:
    """Everything as Markdown."""
    found = [
        f"## {title} ({report['rows']} in all)\n\n" + table(["", *_SHOWN.values()], _lines(report, part))
        for part, title in (("second_half", "Second half of the rows"), ("all", "All rows, from nothing"))
    ]
    observe = report["observe_us"]
    found.append(f"Learning from an answer: {observe['p50']:.0f} us p50, {observe['p99']:.0f} us p99 of CPU time.")
    lines = [[f"x{factor}", *(f"{share:.3f}" for share in shares)] for factor, shares in report["replaced"].items()]
    header = ["all answers suddenly", "answers 1-100", "101-200", "201-600", "601-1000"]
    if lines:
        found.append("## A model is replaced behind its name: coverage of p90\n\n" + table(header, lines))
    if "unseen" in report:
        header = ["unseen model", "running median, MAE", "learned_length, MAE", "better by", "in p90"]
        lines = [
            [name, f"{one['median_mae']:.0f}", f"{one['mae']:.0f}", f"{one['gain']:.1%}", f"{one['p90_coverage']:.3f}"]
            for name, one in report["unseen"].items()
        ]
        found.append("## Answers 51 to 300 of a model never seen\n\n" + table(header, lines))
    return found


def _lines(report: Mapping[str, Any], part: str) -> list[list[str]]:
    parts = {name: one[part] for name, one in report["contenders"].items() if part in one}
    return [[name, *(_short(name, figures, key) for key in _SHOWN)] for name, figures in parts.items()]


def _short(name: str, figures: Mapping[str, float | None], key: str) -> str:
    value, of_time = figures[key], key.startswith("cpu")
    if value is None or (key == "p90_coverage" and name in _POINTS) or (of_time and name == TREES):
        return ""
    return f"{value:.0f}" if key == "mae" or of_time else f"{value:.3f}"


if __name__ == "__main__":
    sys.exit(main())
