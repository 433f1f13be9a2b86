"""The engine against itself and against llama.cpp's own server, on one file, with the same threads and prompts.

    python tests/benchmarks/engine.py                                   everything; an hour
    python tests/benchmarks/engine.py --callers 8 --rounds 3 --rivals headrace,none
    python tests/benchmarks/engine.py --only prefix,pace                 what the engine's own process measures

Throughput is new tokens per second of CPU time of the server's process, prompts included, with nothing remembered from
request to request: on a machine that does other things, too, the wall's clock measures those. A round asks each rival
by turns, a process each that is idle meanwhile; figures are medians of rounds. `prefix` and `pace` run in this process,
on the clock of its thread.

The report is also written to ``tests/benchmarks/out/engine.json``.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from engine_paces import pace, prefix
from engine_rivals import Answer, Rival, closed_loop, headrace, llama_server
from figures import table
from llama_server import DRAFTS
from speculation_prompts import PROMPTS

from embedded_engine.known_models import DEFAULT_MODEL
from embedded_engine.models import default_model_dir
from embedded_engine.pull import pull_model

OUT = Path(__file__).parent / "out" / "engine.json"
_SLOTS = 16


def main() -> int:
    """Measure and report."""
    arguments = _arguments()
    known = pull_model(DEFAULT_MODEL, default_model_dir(), say=print, progress=lambda _done, _total: None)
    model = arguments.model or known.path
    only = arguments.only.split(",")
    report: dict[str, Any] = {}
    if "prefix" in only:
        report["prefix"] = prefix(model, rounds=arguments.rounds)
    if "pace" in only:
        report["pace"] = pace(model, threads=arguments.threads)
    if "throughput" in only:
        report["throughput"] = asyncio.run(_throughput(arguments, model))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(report, indent=1), encoding="utf-8")
    print(_text(report))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="throughput,prefix,pace")
    parser.add_argument("--rivals", default=",".join(("headrace", *DRAFTS)), help="headrace, and ways llama.cpp drafts")
    parser.add_argument("--model", default="", help="a file for all of them; the default model where there is none")
    parser.add_argument(
        "--rival-model", default="", help="a file for llama.cpp alone, in the quantisation it likes best"
    )
    parser.add_argument("--unified", action="store_true", help="llama.cpp keeps one key-value memory for all slots")
    parser.add_argument("--callers", default="1,4,8,16")
    parser.add_argument("--kinds", default=",".join(PROMPTS))
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


async def _throughput(arguments: argparse.Namespace, model: str) -> dict[str, Any]:
    """By callers, kind of task and rival: tokens a second of CPU time, and the wall's."""
    report: dict[str, Any] = {}
    async with AsyncExitStack() as stack:
        rivals = await _start(arguments, model, stack)
        for callers in map(int, arguments.callers.split(",")):
            for kind in arguments.kinds.split(","):
                case = f"{callers} callers, {kind}"
                report[case] = await _compare(arguments, rivals, callers, kind)
                print(case, {name: round(row["tokens_per_cpu_s"]) for name, row in report[case].items()}, flush=True)
    return report


async def _start(arguments: argparse.Namespace, model: str, stack: AsyncExitStack) -> dict[str, Rival]:
    rivals: dict[str, Rival] = {}
    for name in arguments.rivals.split(","):
        if name == "headrace":
            rivals |= await stack.enter_async_context(headrace(model, threads=arguments.threads, slots=_SLOTS))
        else:
            rivals[f"llama.cpp, {name}"] = await stack.enter_async_context(
                llama_server(
                    arguments.rival_model or model,
                    threads=arguments.threads,
                    parallel=_SLOTS,
                    draft=name,
                    unified=arguments.unified,
                )
            )
    return rivals


async def _compare(
    arguments: argparse.Namespace, rivals: dict[str, Rival], callers: int, kind: str
) -> dict[str, dict[str, float]]:
    prompts = list(PROMPTS[kind])
    prompts *= -(-callers // len(prompts))
    measured: dict[str, list[dict[str, float]]] = defaultdict(list)
    for _ in range(arguments.rounds):
        for name, rival in rivals.items():
            cpu_s, started_s = rival.cpu_s(), time.perf_counter()
            answers = await closed_loop(rival, prompts, callers=callers, max_tokens=arguments.tokens)
            seconds = time.perf_counter() - started_s
            measured[name].append(_figures(answers, cpu_s=rival.cpu_s() - cpu_s, seconds=seconds))
    return {
        name: {key: statistics.median(r[key] for r in rounds) for key in rounds[0]} for name, rounds in measured.items()
    }


def _figures(answers: list[Answer], *, cpu_s: float, seconds: float) -> dict[str, float]:
    tokens = sum(answer.tokens for answer in answers)
    return {
        "tokens_per_cpu_s": tokens / max(cpu_s, 1e-2),
        "tokens_per_s": tokens / seconds,
        "first_text_s": statistics.median(answer.times_s[0] for answer in answers if answer.times_s),
    }


def _text(report: dict[str, Any]) -> str:
    parts = [
        table([name, ""], [[key, str(value)] for key, value in report[name].items()])
        for name in ("prefix", "pace")
        if name in report
    ]
    if throughput := report.get("throughput"):
        names = list(next(iter(throughput.values())))
        rows = [
            [case, *(f"{by_rival[name]['tokens_per_cpu_s']:.0f}" for name in names)]
            for case, by_rival in throughput.items()
        ]
        parts.append(table(["tokens/s of CPU", *names], rows))
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
