"""Steering by success on real outcomes: MMLU, answered by a weak and a strong model (RouteLLM's tables).

    python tests/benchmarks/success.py TABLES.tar.gz

Each question is a task of one request. It comes to a route that learns from verdicts alone (cost: money and success,
exploring within a budget), once with one route for all questions and once with one for each of the 57 subjects; nothing
of a question's text is looked at. Everything is learned online, in one pass, and what learning costs is in the figures.
``worth`` says what a right answer is worth; its sweep gives the curve. Beside them stand always-weak, always-strong, a
coin between the two, the best choice for each subject in hindsight, and for each question (nobody can know that one).

Writes ``out/success.json`` and, where matplotlib is installed, ``out/success.png``; prints a table. Two minutes of CPU.
"""

import argparse
import asyncio
import importlib
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from figures import table
from mmlu import ANSWER_TOKENS, PRICES, STRONG, WEAK, Question, read_questions

from gateway.clock import SystemClock
from gateway.conversation import Message
from gateway.fleet.fleet import Fleet
from gateway.limits.borrower import Borrower
from gateway.limits.gate import Gate
from gateway.rules.policy_file import parse_policy
from gateway.rules.world import World, build_world
from gateway.steering.steering import Steering
from gateway.stores.memory import MemoryShared
from gateway.stores.sqlite_lender import SqliteLender
from gateway.task import JudgedRequest, Verdict
from gateway.trace_context import new_trace
from gateway.types import Arrival, ChatRequest, Operation

OUT = Path(__file__).with_name("out")
WORTHS_USD = (0.001, 0.003, 0.006, 0.009, 0.012, 0.02, 0.05)
PER_THOUSAND = 1000


class Point(NamedTuple):
    """How a way to choose did: US dollars per thousand questions, the share that was right, and what a right one costs.

    ``worth_usd`` is what it was told that one is worth; ``None`` where it was told nothing.
    """

    name: str
    usd_per_thousand: float
    right: float
    usd_per_right: float
    worth_usd: float | None = None


def main() -> int:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path)
    questions = read_questions(parser.parse_args().tables)
    points = [*_known(questions)]
    for per_subject, name in ((False, "steering, one route"), (True, "steering, a route a subject")):
        points += [asyncio.run(_steered(questions, usd, name=name, per_subject=per_subject)) for usd in WORTHS_USD]
    points += [_by_subject(questions, usd) for usd in WORTHS_USD]
    points += [_point("oracle, each question", questions, _cheapest_right)]
    OUT.mkdir(exist_ok=True)
    (OUT / "success.json").write_text(json.dumps([point._asdict() for point in points], indent=2))
    _draw(points, OUT / "success.png")
    rows = [
        (
            point.name,
            "" if point.worth_usd is None else f"{point.worth_usd:g}",
            f"{point.usd_per_thousand:.3f}",
            f"{point.right:.4f}",
            f"{PER_THOUSAND * point.usd_per_right:.3f}",
            f"{_above_coin(points, point):+.4f}",
        )
        for point in points
    ]
    print(table(("way to choose", "worth $", "$/1,000", "right", "$/1,000 right", "above a coin"), rows))
    return 0


def _point(
    name: str, questions: Sequence[Question], choose: Callable[[Question], str], worth_usd: float | None = None
) -> Point:
    chosen = [(question, choose(question)) for question in questions]
    usd = sum(question.usd[model] for question, model in chosen)
    right = sum(question.right[model] for question, model in chosen)
    return Point(name, PER_THOUSAND * usd / len(chosen), right / len(chosen), usd / right, worth_usd)


def _known(questions: Sequence[Question]) -> Iterable[Point]:
    yield _point("always weak", questions, lambda _: WEAK)
    yield _point("always strong", questions, lambda _: STRONG)
    numbers = {id(question): number for number, question in enumerate(questions)}
    yield _point("a coin", questions, lambda question: (WEAK, STRONG)[numbers[id(question)] % 2])


def _cheapest_right(question: Question) -> str:
    return STRONG if question.right[STRONG] and not question.right[WEAK] else WEAK


def _by_subject(questions: Sequence[Question], worth_usd: float) -> Point:
    """The best model of each subject, by who has seen all answers."""
    values: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(PRICES, 0.0))
    for question in questions:
        for model in PRICES:
            values[question.subject][model] += worth_usd * question.right[model] - question.usd[model]
    best = {subject: max(of, key=lambda model: of[model]) for subject, of in values.items()}
    return _point("oracle, each subject", questions, lambda question: best[question.subject], worth_usd)


async def _steered(questions: Sequence[Question], worth_usd: float, *, name: str, per_subject: bool) -> Point:
    """All questions one after the other, over the real decision; the verdict on each comes before the next."""
    subjects = sorted({question.subject for question in questions}) if per_subject else ["all"]
    world = build_world(parse_policy(_policy(subjects, worth_usd), file="success.yaml"), file="success.yaml")
    clock, chosen = SystemClock(), {}
    with tempfile.TemporaryDirectory() as folder:
        gate = Gate(Borrower(SqliteLender(Path(folder) / "limits", clock=clock), replica="a", clock=clock), clock=clock)
        steering = Steering(clock=clock, seat="a", gate=gate)
        steering.follow(world.routes)
        fleet = Fleet(clock=clock, shared=MemoryShared(clock))
        for number, question in enumerate(questions):
            subject = question.subject if per_subject else "all"
            chosen[id(question)] = await _serve(world, fleet, steering, clock, (number, subject, question))
        await gate.borrower.close()
    return _point(name, questions, lambda question: chosen[id(question)], worth_usd)


async def _serve(
    world: World, fleet: Fleet, steering: Steering, clock: SystemClock, asked: tuple[int, str, Question]
) -> str:
    number, subject, question = asked
    arrival = Arrival(
        id=f"question-{number}",
        operation=Operation.CHAT,
        tenant="mmlu",
        received_s=clock.now_s(),
        received_unix_s=clock.unix_s(),
        trace=new_trace(()),
    )
    request = ChatRequest(
        arrival=arrival,
        model=subject,
        messages=(Message(role="user", content=question.prompt),),
        prompt_bytes=len(question.prompt.encode()),
    )
    route = world.match(subject)
    ctx = route.context(request, route.classifier.forecast(request))
    decision = await steering.decide(route, ctx, fleet.snapshot(route, ctx, world.backends))
    model = decision.order[0].candidate.model
    judged = JudgedRequest(
        id=arrival.id,
        route=route.name,
        backend=decision.order[0].candidate.backend,
        model=model,
        answered=True,
        kind=ctx.forecast.kind,
        cost_usd=Decimal(question.usd[model]),
        received_unix_s=arrival.received_unix_s,
    )
    steering.judged(Verdict(tenant="mmlu", task=arrival.id, success=question.right[model], requests=(judged,)))
    return model


def _policy(subjects: Sequence[str], worth_usd: float) -> str:
    price = "{price: {input_usd_per_mtok: %s, output_usd_per_mtok: %s}}"
    backends = "".join(
        f"  {name}: {{use: fake, models: {{{model}: {price % usd}}}}}\n"
        for name, (model, usd) in zip(("weak", "strong"), PRICES.items(), strict=True)
    )
    routes = "".join(
        f"  {subject}: {{models: [{subject}], targets: [weak/{WEAK}, strong/{STRONG}]}}\n" for subject in subjects
    )
    return f"""
backends:
{backends}
routes:
{routes}
defaults:
  classify: {{use: by_length, message_tokens: 0, prior_p50_tokens: {ANSWER_TOKENS}, prior_p90_tokens: {ANSWER_TOKENS}}}
  cost: [money, success]
  worth: {{usd_per_success: {worth_usd}}}
  explore: {{usd: 10, per: day, share: 1}}
"""


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
    weak, strong = points[0], points[1]
    ends = ([weak.usd_per_thousand, strong.usd_per_thousand], [weak.right, strong.right])
    panel.plot(*ends, "o--", color="#a9b4bd", label="weak, strong, and any coin between them")
    for name, mark, colour in (
        ("oracle, each subject", "s-", "#c9d6de"),
        ("steering, one route", "^-", "#5aa0bd"),
        ("steering, a route a subject", "o-", "#0b6e99"),
    ):
        curve = sorted((point.usd_per_thousand, point.right) for point in points if point.name == name)
        panel.plot(*zip(*curve, strict=True), mark, color=colour, label=name)
    panel.set(xlabel="US dollars per 1,000 questions", ylabel="answers that are right", title="MMLU, learned online")
    panel.legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())
