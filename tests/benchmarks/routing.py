"""How well the default policy routes: the published rules beside it, on the same traces, in the same run.

    python tests/benchmarks/routing.py                  samples of the traces, a minute
    python tests/benchmarks/routing.py --fetch          the whole ones, from Mooncake's public repository
    python tests/benchmarks/routing.py FOLDER           whole ones that are there already

Eight engines with a prefix cache of 5,000 blocks of 512 tokens each, as ``headrace replay`` simulates them; loads of
0.8, 1 and 1.3 times the trace's own; one, two and four replicas of the gateway. The CPU time of a decision is measured
beside it. Writes ``out/routing.json`` and, where matplotlib is installed, ``out/routing.png``; prints tables and, for
each goal, whether it is met.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from decision_cpu import decision_us, hashing_us
from hot_document import write as write_hot_document
from routing_report import chart, tables, verdicts

from gateway.replay.figures import Sample, figures
from gateway.replay.report import keys_of
from gateway.replay.run import Conditions, Replay
from gateway.replay.scene import Stage
from gateway.replay.trace import TraceOptions, count_rows, read_trace
from gateway.rules.policy_file import parse_policy
from gateway.rules.preset_files import policy_path, preset_files

HERE = Path(__file__).resolve().parent
OUT = HERE / "out"
SAMPLES = HERE / "traces"
SOURCE = "https://raw.githubusercontent.com/kvcache-ai/Mooncake/main/FAST25-release/traces"
FILES = {
    "conversation": ("conversation_trace.jsonl", "mooncake_conversation_trace.jsonl", "conversation.jsonl"),
    "synthetic": ("synthetic_trace.jsonl", "mooncake_synthetic_trace.jsonl", "synthetic.jsonl"),
    "hot_document": ("hot_document.jsonl", "ownsynthetic_hotdoc_trace.jsonl"),
}
"""Each trace's file, under the names that it is known by."""

VARIANTS = {"dynamo_cost x3": ("dynamo_cost", "rank: {use: dynamo_cost, prefill_load_scale: 3}")}
"""Presets with another rank in place of theirs: Dynamo's guide advises a larger scale where first tokens matter."""

REPLICAS, BLOCKS = 8, 5000
SAMPLE_ROWS = 600
LOADS = (0.8, 1.0, 1.3)
GATEWAYS = (1, 2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One replay of the benchmark."""

    policy: str
    trace: str
    load: float
    gateways: int


def main() -> int:
    """The command; 0 whether or not goals are met: they are reported, not enforced."""
    arguments = _arguments()
    paths = _paths(arguments.folder, fetch=arguments.fetch)
    cpu_us = {
        "decision_24_blocks": decision_us(24),
        "decision_250_blocks": decision_us(250),
        "hashing_48_kb": hashing_us(48),
    }
    runs = list(_runs(arguments, paths))
    with ProcessPoolExecutor(arguments.jobs) as pool:
        found = []
        for run, told in zip(runs, pool.map(_replay, runs, [paths[run.trace] for run in runs]), strict=True):
            found.append({**asdict(run), **told})
            print(
                f"{run.trace} {run.load}x {run.gateways} gateway(s) {run.policy}: {told['ttft_mean_s']:.3f} s",
                file=sys.stderr,
            )
    if arguments.update:
        fresh = {_key(run) for run in found}
        found += [run for run in _last_runs() if _key(run) not in fresh]
    report = {
        "replicas": REPLICAS,
        "blocks": BLOCKS,
        "seed": 1,
        "traces": {name: {"file": path.name, "requests": count_rows(path)} for name, path in paths.items()},
        "runs": found,
        "cpu_us": cpu_us,
    }
    report["goals"] = verdicts(report, whole=arguments.fetch or arguments.folder is not None)
    OUT.mkdir(exist_ok=True)
    (OUT / "routing.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    print("\n".join(tables(report)))
    chart(report, OUT / "routing.png")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="where the whole traces are; without it, the samples")
    parser.add_argument("--fetch", action="store_true", help="get the whole traces into tests/benchmarks/out/traces")
    parser.add_argument("--policies", nargs="+", default=[*preset_files(), *VARIANTS])
    parser.add_argument("--traces", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--loads", nargs="+", type=float, default=LOADS)
    parser.add_argument("--gateways", nargs="+", type=int, default=GATEWAYS)
    parser.add_argument("--update", action="store_true", help="add to the last report, or replace what it has")
    parser.add_argument("--jobs", type=int, default=1, help="replays at a time")
    return parser.parse_args()


def _last_runs() -> list[dict[str, Any]]:
    path = OUT / "routing.json"
    return json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []


def _key(run: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(run[field.name] for field in fields(Run))


def _runs(arguments: argparse.Namespace, paths: dict[str, Path]) -> Iterator[Run]:
    """All loads with the fewest gateways, and all numbers of gateways at the trace's own load."""
    fewest = min(arguments.gateways)
    for trace in arguments.traces:
        if trace in paths:
            for policy in arguments.policies:
                for load in arguments.loads:
                    yield Run(policy=policy, trace=trace, load=load, gateways=fewest)
                for gateways in arguments.gateways:
                    if gateways != fewest:
                        yield Run(policy=policy, trace=trace, load=1.0, gateways=gateways)


def _replay(run: Run, path: Path) -> dict[str, Any]:
    preset, rank = VARIANTS.get(run.policy, (run.policy, ""))
    text = policy_path(preset).read_text(encoding="utf-8")
    if rank:
        text = text.replace(f"rank: {preset}", rank)
    stage = Stage(policy=parse_policy(text, file=run.policy), file=run.policy, replicas=REPLICAS)
    rows = count_rows(path)
    conditions = Conditions(cache_blocks=BLOCKS, gateways=run.gateways, prediction="median", warm_up=rows // 10, seed=1)
    replay = Replay(stage, conditions)
    replay.run(read_trace(path, TraceOptions(load=run.load)))
    return dict(keys_of(figures(Sample(replay.tally.windows), seed=1)))


def _paths(folder: Path | None, *, fetch: bool) -> dict[str, Path]:
    """Where the traces are. The hot document's is made where it is not."""
    found: dict[str, Path] = {}
    target = OUT / "traces"
    target.mkdir(parents=True, exist_ok=True)
    for trace, names in FILES.items():
        places = [
            place / name
            for place in (folder, target if fetch else None, None if folder or fetch else SAMPLES)
            if place
            for name in names
        ]
        path = next((place for place in places if place.exists()), None)
        if path is None and trace == "hot_document":
            path = target / names[0] if folder or fetch else target / f"beginning_of_{names[0]}"
            write_hot_document(path, rows=None if folder or fetch else SAMPLE_ROWS)
        elif path is None and fetch:
            path = _fetched(names[0], target)
        if path is not None:
            found[trace] = path
    return found


def _fetched(name: str, target: Path) -> Path:
    print(f"getting {SOURCE}/{name}", file=sys.stderr)
    try:
        with urlopen(f"{SOURCE}/{name}", timeout=60) as answer:  # noqa: S310  # a constant https address
            (target / name).write_bytes(answer.read())
    except OSError as error:
        raise SystemExit(f"{SOURCE}/{name} cannot be fetched: {error}. Give a folder that has it.") from error
    return target / name


if __name__ == "__main__":
    sys.exit(main())
