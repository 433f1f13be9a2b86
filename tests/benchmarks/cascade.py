"""Cascades on real outcomes: MMLU, answered by a weak and a strong model (RouteLLM's tables).

    python tests/benchmarks/cascade.py TABLES.tar.gz

Each question goes to the weak model first; a judge says whether its answer is right, and where it says no, the strong
model answers. The table knows who was right, so the judge is made up, with a stated quality: right in so many of a
hundred cases, about right answers and wrong ones alike (50 is a coin). Its own price is ``--judge-usd`` an answer.
Beside the cascades stand always-weak, always-strong, a coin between the two, and for each question the cheaper of those
that are right (nobody can know that one). Steering by what was learned, without a judge, is ``success.py``.

The curve is reckoned from the tables. ``--served`` questions also go through the gateway's own pipeline, with its
judges, its prices and its ledger, and must come to the same answers and the same cost, to the last digit.

Writes ``out/cascade.json`` and, where matplotlib is installed, ``out/cascade.png``; prints a table. Half a minute.
"""

import argparse
import asyncio
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from cascade_served import Served, serve
from figures import table
from mmlu import STRONG, WEAK, Question, read_questions
from mmlu_models import catches

OUT = Path(__file__).with_name("out")
QUALITIES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
PER_THOUSAND = 1000


class Outcome(NamedTuple):
    """One question: whether the answer that the client got is right, and what it cost."""

    right: bool
    usd: float


class Point(NamedTuple):
    """How a way to choose did; ``quality`` is the judge's, ``None`` where there is none."""

    name: str
    quality: float | None
    usd_per_thousand: float
    right: float
    asked_strong: float


def main() -> int:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path)
    parser.add_argument("--judge-usd", type=float, default=0.0, help="what one judgement costs")
    parser.add_argument("--served", type=int, default=2000, help="questions that go through the pipeline as well")
    arguments = parser.parse_args()
    questions = read_questions(arguments.tables)
    points = reckoned(questions, judge_usd=arguments.judge_usd)
    agrees = _check(questions[: arguments.served]) if arguments.served else None
    OUT.mkdir(exist_ok=True)
    found = {"points": [point._asdict() for point in points], "served": agrees}
    (OUT / "cascade.json").write_text(json.dumps(found, indent=2))
    _draw(points, OUT / "cascade.png")
    rows = [
        (
            point.name,
            "" if point.quality is None else f"{point.quality:.0%}",
            f"{point.usd_per_thousand:.3f}",
            f"{point.right:.4f}",
            f"{point.usd_per_thousand / point.right:.3f}",
            f"{point.asked_strong:.0%}",
            f"{_above_coin(points, point):+.4f}",
        )
        for point in points
    ]
    print(table(("way to choose", "judge", "$/1,000", "right", "$/1,000 right", "strong asked", "above a coin"), rows))
    if agrees is not None:
        counts = f"{agrees['usd']} US dollars, {agrees['right']} right, as reckoned"
        print(f"\n{agrees['questions']} questions through the pipeline: {counts}")
    return 0


def reckoned(questions: Sequence[Question], *, judge_usd: float) -> list[Point]:
    """All ways to choose, over all questions."""
    coin = {id(question): (WEAK, STRONG)[number % 2] for number, question in enumerate(questions)}
    alone: tuple[tuple[str, Callable[[Question], str]], ...] = (
        ("always weak", lambda _: WEAK),
        ("always strong", lambda _: STRONG),
        ("a coin", lambda question: coin[id(question)]),
        ("oracle", lambda question: STRONG if question.right[STRONG] and not question.right[WEAK] else WEAK),
    )
    points = [
        _point(name, None, [(Outcome(one.right[choose(one)], one.usd[choose(one)]), choose(one)) for one in questions])
        for name, choose in alone
    ]
    for quality in QUALITIES:
        found = [(cascaded(one, quality, judge_usd=judge_usd), _last(one, quality)) for one in questions]
        points.append(_point("cascade", quality, found))
    return points


def cascaded(question: Question, quality: float, *, judge_usd: float = 0.0) -> Outcome:
    """The weak model's answer where the judge takes it for right, else the strong one's; both are paid for."""
    last = _last(question, quality)
    usd = question.usd[WEAK] + judge_usd + (question.usd[STRONG] if last == STRONG else 0.0)
    return Outcome(question.right[last], usd)


def _last(question: Question, quality: float) -> str:
    passes = question.right[WEAK] == catches(question.prompt, quality)
    return WEAK if passes else STRONG


def _point(name: str, quality: float | None, found: Sequence[tuple[Outcome, str]]) -> Point:
    n = len(found)
    return Point(
        name=name,
        quality=quality,
        usd_per_thousand=PER_THOUSAND * sum(outcome.usd for outcome, _ in found) / n,
        right=sum(outcome.right for outcome, _ in found) / n,
        asked_strong=sum(last == STRONG for _, last in found) / n,
    )


def _check(questions: Sequence[Question], quality: float = 0.9) -> dict[str, object]:
    """Serves the questions, and compares with what was reckoned.

    Raises:
        AssertionError: an answer or a cost differs.
    """
    served: list[Served] = asyncio.run(serve(questions, quality))
    for question, one in zip(questions, served, strict=True):
        expected = cascaded(question, quality)
        if (one.right, round(one.usd, 9)) != (expected.right, round(Decimal(str(expected.usd)), 9)):
            raise AssertionError(f"{question.subject}: {one} is not {expected}")
    total_usd = sum((one.usd for one in served), Decimal(0))
    return {
        "questions": len(served),
        "usd": str(total_usd),
        "right": sum(one.right for one in served),
        "judge": quality,
    }


def _above_coin(points: Sequence[Point], point: Point) -> float:
    """How much more is right than a coin between weak and strong would have right for the same money."""
    weak, strong = points[0], points[1]
    share = (point.usd_per_thousand - weak.usd_per_thousand) / (strong.usd_per_thousand - weak.usd_per_thousand)
    return point.right - (weak.right + share * (strong.right - weak.right))


def _draw(points: Sequence[Point], path: Path) -> None:
    """What is right over what it costs; nothing where matplotlib is not installed."""
    try:
        figure_class = importlib.import_module("matplotlib.figure").Figure
    except ModuleNotFoundError:
        return
    figure = figure_class(figsize=(7.5, 4.6), layout="constrained")
    panel = figure.subplots()
    weak, strong, _, oracle, *cascades = points
    ends = ([weak.usd_per_thousand, strong.usd_per_thousand], [weak.right, strong.right])
    panel.plot(*ends, "o--", color="#a9b4bd", label="weak, strong, and any coin between them")
    panel.plot([oracle.usd_per_thousand], [oracle.right], "s", color="#c9d6de", label="who knows the answers")
    curve = ([one.usd_per_thousand for one in cascades], [one.right for one in cascades])
    panel.plot(*curve, "o-", color="#0b6e99", label="a cascade, by how often its judge is right")
    for one in cascades:
        panel.annotate(f"{one.quality:.0%}", (one.usd_per_thousand, one.right), (4, -11), textcoords="offset points")
    panel.set(
        xlabel="US dollars per 1,000 questions", ylabel="answers that are right", title="MMLU, judged and gone further"
    )
    panel.legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())
