"""What speculation gains on the real model, by kind of task, and whether it keeps its word.

    python tests/benchmarks/speculation.py                     nine kinds, greedy, at 0.8 and at 1; half an hour
    python tests/benchmarks/speculation.py --tokens 64 --kinds chat,json --temperatures 0
    python tests/benchmarks/speculation.py --identity 20000    so many tokens with and without, strict, compared

Each prompt is answered by turns without speculation and with it, by one engine with one thread and one caller. The
figure is the CPU time from the first token to the last, sampling and drafting included; answers are compared, token
for token. `edit with prediction` is copy-edit once more with the text itself as the request's `prediction`. Every pair
has a scope of its own for its past outputs, but the same for all prompts of one kind and temperature.

The report is also written to ``tests/benchmarks/out/speculation.json``, from which ``speculation_chart.py`` draws.
"""

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figures import short, table
from speculation_prompts import PREDICTED, PROMPTS, prediction_of

from embedded_engine.engine import Engine
from embedded_engine.known_models import DEFAULT_MODEL
from embedded_engine.messages import Done, Failed, Generate, Text
from embedded_engine.models import default_model_dir
from embedded_engine.pull import pull_model
from embedded_engine.settings import EngineSettings
from embedded_engine.speculative import Speculative
from embedded_engine.turns import ChatMessage

OUT = Path(__file__).parent / "out" / "speculation.json"
WITH_PREDICTION = "edit with prediction"
_CONTEXT_TOKENS = 1024


@dataclass
class Answer:
    """What came of one request."""

    text: str = ""
    tokens: int = 0
    cpu_s: float = 0.0
    steps: int = 0


@dataclass
class Drafting:
    """What the speculator did, looked at from outside."""

    plan_s: list[float] = field(default_factory=list)
    survived: list[int] = field(default_factory=lambda: [0] * 17)
    drafted: list[int] = field(default_factory=lambda: [0] * 17)


def main() -> int:
    """Measure and report."""
    arguments = _arguments()
    model = pull_model(DEFAULT_MODEL, default_model_dir(), say=print, progress=lambda _done, _total: None)
    settings = EngineSettings(model_path=model.path, context_tokens=_CONTEXT_TOKENS, slots=1, threads=1)
    engine = Engine(settings)
    if arguments.identity:
        return _identity(engine, arguments.identity)
    drafting = _watch(engine)
    kinds = {kind: PROMPTS[kind] for kind in arguments.kinds.split(",") if kind in PROMPTS}
    temperatures = [float(value) for value in arguments.temperatures.split(",")]
    report = _measure(engine, kinds, temperatures, arguments.tokens)
    report |= _of_drafting(engine, drafting)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(report, indent=1), encoding="utf-8")
    print(_text(report))
    return 0


def _measure(
    engine: Engine, kinds: dict[str, Sequence[str]], temperatures: Sequence[float], tokens: int
) -> dict[str, Any]:
    """Speed-up by temperature and kind."""
    results: dict[str, dict[str, Any]] = {}
    identical = compared = 0
    for temperature in temperatures:
        by_kind = results[str(temperature)] = {}
        for kind, predicts in [*((kind, False) for kind in kinds), *((kind, True) for kind in kinds)]:
            if predicts and (kind != PREDICTED[0] or temperature):
                continue
            name = WITH_PREDICTION if predicts else kind
            pairs = list(_pairs(engine, kinds[kind], name, predicts, temperature, tokens))
            identical += sum(plain.text == quick.text for plain, quick in pairs)
            compared += len(pairs)
            by_kind[name] = _summary(pairs)
            print(f"{temperature:4} {name:20} {by_kind[name]['speedup']:.2f}", file=sys.stderr, flush=True)
        everything = [by_kind[kind] for kind in kinds]
        by_kind["all"] = _total(everything)
    return {"speedups": results, "identical": identical, "compared": compared, "max_tokens": tokens}


def _pairs(
    engine: Engine, prompts: Sequence[str], name: str, predicts: bool, temperature: float, tokens: int
) -> Iterator[tuple[Answer, Answer]]:
    for number, prompt in enumerate(prompts):
        fields: dict[str, Any] = {
            "messages": (ChatMessage(role="user", content=prompt),),
            "temperature": temperature,
            "seed": 1000 + number,
            "max_tokens": tokens,
        }
        if predicts:
            fields["prediction"] = prediction_of(prompt)
        answers = {}
        for enabled in (number % 2 == 0, number % 2 == 1):
            scope = f"{name} {temperature}"
            answers[enabled] = _answer(engine, speculative=Speculative(enabled=enabled), scope=scope, **fields)
        yield answers[False], answers[True]


def _answer(engine: Engine, **fields: Any) -> Answer:
    """One answer, timed from the step after its first token."""
    answer, started = Answer(), False
    engine.submit(engine.prepare(Generate(id=1, **fields)))
    while engine.busy:
        before_s, tokens = time.process_time(), engine.drawn_tokens
        events = engine.step()
        if started:
            answer.cpu_s += time.process_time() - before_s
            answer.tokens += engine.drawn_tokens - tokens
            answer.steps += 1
        started = started or engine.drawn_tokens > tokens
        for event in events:
            if isinstance(event, Text):
                answer.text += event.text
            elif isinstance(event, Failed):
                raise SystemExit(f"the engine failed: {event.message}")
            elif isinstance(event, Done):
                started = False
    return answer


def _summary(pairs: Sequence[tuple[Answer, Answer]]) -> dict[str, Any]:
    plain_s, quick_s = (sum(pair[which].cpu_s for pair in pairs) for which in (0, 1))
    ratios = [plain.cpu_s / quick.cpu_s for plain, quick in pairs if quick.cpu_s]
    return {
        "speedup": plain_s / quick_s,
        "median_of_pairs": statistics.median(ratios),
        "plain_s": plain_s,
        "quick_s": quick_s,
        "tokens": sum(quick.tokens for _, quick in pairs),
        "steps": sum(quick.steps for _, quick in pairs),
    }


def _total(summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    whole = {name: sum(summary[name] for summary in summaries) for name in ("plain_s", "quick_s", "tokens", "steps")}
    return {"speedup": whole["plain_s"] / whole["quick_s"], **whole}


def _watch(engine: Engine) -> Drafting:
    """Time the speculator, and count how far drafts hold."""
    speculator, drafting = engine._speculator, Drafting()
    plan, learn = speculator.plan, speculator.learn

    def timed_plan(drafts: Any, **fields: Any) -> Any:
        started_s = time.perf_counter()
        planned = plan(drafts, **fields)
        if any(draft.wanted.enabled for draft in drafts):
            drafting.plan_s.append(time.perf_counter() - started_s)
        return planned

    def timed_learn(draft: Any, *, drafted: Sequence[int], emitted: Sequence[int], **fields: Any) -> None:
        started_s = time.perf_counter()
        learn(draft, drafted=drafted, emitted=emitted, **fields)
        if draft.wanted.enabled and drafting.plan_s:
            drafting.plan_s[-1] += time.perf_counter() - started_s
        for position, (token, said) in enumerate(zip(drafted, emitted, strict=False)):
            drafting.drafted[position] += 1
            drafting.survived[position] += token == said
            if token != said:
                break

    speculator.plan, speculator.learn = timed_plan, timed_learn  # type: ignore[method-assign]
    return drafting


def _of_drafting(engine: Engine, drafting: Drafting) -> dict[str, Any]:
    report = engine._speculator.report()
    judged = sum(sum(source.judged) for source in report.values())
    bins = zip(*(zip(source.confidence, source.probability, strict=True) for source in report.values()), strict=True)
    gaps = [abs(sum(c - p for c, p in of_bin)) for of_bin in bins]
    return {
        "sources": {
            name: {
                "drafted": source.drafted,
                "accepted": source.accepted,
                "calibration_error": source.calibration_error,
                "judged": source.judged,
                "confidence": source.confidence,
                "probability": source.probability,
            }
            for name, source in report.items()
        },
        "calibration_error": sum(gaps) / max(1, judged),
        "drafting_us_per_step": 1e6 * statistics.median(drafting.plan_s),
        "step_us": 1e6 * engine._costs.curve.of(1),
        "right_by_position": [s / d for s, d in zip(drafting.survived, drafting.drafted, strict=True) if d],
    }


def _identity(engine: Engine, tokens: int) -> int:
    """Answers with and without, strict, until so many tokens were compared; returns 1 where they differ."""
    compared: dict[float, int] = defaultdict(int)
    differing = 0
    round_ = 0
    while sum(compared.values()) < tokens:
        for number, (kind, prompt) in enumerate((k, p) for k, prompts in PROMPTS.items() for p in prompts):
            temperature = (0.0, 0.8)[(number + round_) % 2]
            fields: dict[str, Any] = {
                "messages": (ChatMessage(role="user", content=prompt),),
                "temperature": temperature,
                "seed": round_,
                "max_tokens": 300,
                "scope": kind,
            }
            answers = [
                _answer(engine, speculative=Speculative(enabled=enabled, exactness="strict"), **fields)
                for enabled in (False, True)
            ]
            compared[temperature] += answers[0].tokens
            differing += answers[0].text != answers[1].text
        round_ += 1
        print(dict(compared), "differing answers:", differing, flush=True)
    return int(differing > 0)


def _text(report: dict[str, Any]) -> str:
    names = list(next(iter(report["speedups"].values())))
    rows = [
        [name, *(short(kinds[name]["speedup"]) if name in kinds else "" for kinds in report["speedups"].values())]
        for name in names
    ]
    sources = [
        [name, str(s["drafted"]), str(s["accepted"]), f"{s['calibration_error']:.3f}"]
        for name, s in report["sources"].items()
    ]
    share = report["drafting_us_per_step"] / report["step_us"]
    return "\n\n".join(
        [
            table(["kind", *(f"T = {temperature}" for temperature in report["speedups"])], rows),
            table(["source", "drafted", "accepted", "calibration error"], sources),
            f"calibration error of all: {report['calibration_error']:.3f}",
            f"drafting: {report['drafting_us_per_step']:.0f} \N{MICRO SIGN}s a step, {share:.1%} of one row",
            f"identical answers: {report['identical']} of {report['compared']}",
        ]
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(PROMPTS))
    parser.add_argument("--temperatures", default="0,0.8,1")
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--identity", type=int, default=0, metavar="TOKENS")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
