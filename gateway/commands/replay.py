"""``headrace replay POLICY TRACE``: what a policy would do with a trace, on simulated engines."""

import argparse
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gateway.replay.bounds import Bound, read_bound
from gateway.replay.chart import drawer
from gateway.replay.engine_file import read_engine
from gateway.replay.engine_model import EngineModel
from gateway.replay.figures import FIGURES, Figure, Sample, differences, figures
from gateway.replay.prediction import PREDICTIONS
from gateway.replay.report import Told, keys_of, table
from gateway.replay.run import Conditions, Objective, Replay
from gateway.replay.scene import Stage, read_stage
from gateway.replay.trace import TraceOptions, count_rows, has_words, read_trace
from gateway.rules.preset_files import policy_path

BROKEN = 3
"""The exit code where a bound does not hold."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    add = parser.add_argument
    add("policy", help="policy file, or the name of a preset such as `default`")
    add("trace", type=Path, help="JSONL file: Mooncake's format, the ledger's export, or prompts")
    add("--against", metavar="POLICY", help="compare with another policy on the same trace")
    add("--bound", action="append", default=[], help="exit with 3 unless it holds: `ttft_p95_s<=4.4`; may be repeated")
    add("--json", action="store_true", help="print JSON")
    add("--chart", type=Path, metavar="FILE", help="draw a chart, as PNG, SVG or PDF by its ending")
    add("--route", help="the policy's route, where it has several")
    _add_fleet(parser.add_argument_group("fleet").add_argument)
    _add_trace(parser.add_argument_group("trace").add_argument)
    add = parser.add_argument_group("objective").add_argument
    add("--slo-ttft-s", type=_positive, default=3.0, help="a good answer begins within so long")
    add("--slo-tpot-s", type=_positive, default=math.inf, help="and writes each token in so long")
    add("--usd-per-hour", type=_not_negative, default=0.0, help="what each engine costs, beside its price per token")


def _add_fleet(add: Callable[..., object]) -> None:
    add("--replicas", type=_count(1024), help="engines; without it one a target, or eight of a single one")
    add("--blocks", type=_count(10**8), default=5000, help="blocks of each engine's prefix cache")
    add(
        "--engine",
        action="append",
        default=[],
        metavar="[BACKEND=]FILE",
        help="an engine's speeds as JSON, or a log of one to fit them to; may be repeated for several backends",
    )
    add("--gateways", type=_count(64), default=1, help="replicas of the gateway, each with its own view")
    add("--share-ms", type=_share_ms, default=50.0, help="until they know of each other's attempts; `never`")


def _add_trace(add: Callable[..., object]) -> None:
    add("--load", type=_positive, default=1.0, help="1.3 plays the trace 1.3 times as fast")
    add("--limit", type=_count(10**12), help="read so many rows at most")
    add("--block-tokens", type=_count(10**6), default=512, help="tokens that one of `hash_ids` stands for")
    add("--spread-ms", type=_not_negative, help="spread rows over so long; by default over the step of a coarse clock")
    add("--rate", type=_positive, default=1.0, help="arrivals a second, where rows have no timestamp")
    add("--warm-up", type=_share, default=0.1, help="the share of the trace that is served and not counted")
    add("--predict", choices=PREDICTIONS, help="where forecasts come from: the policy, where there are words")
    add("--seed", type=_count(2**31), default=1, help="of everything that is drawn")


@dataclass(frozen=True, slots=True)
class _Played:
    policy: str
    replay: Replay
    sample: Sample
    figures: Mapping[str, Figure]


def run(arguments: argparse.Namespace) -> int:
    """Prints the figures; 0, or 3 where a bound does not hold."""
    bounds = [read_bound(text, FIGURES) for text in arguments.bound]
    draw = drawer() if arguments.chart is not None else None
    stages = {name: _stage(name, arguments) for name in (arguments.policy, arguments.against) if name is not None}
    conditions = _conditions(arguments)
    for stage in stages.values():
        stage.check(conditions.engines)
    played = [_play(name, stage, arguments, conditions) for name, stage in stages.items()]
    differing = differences(played[0].sample, played[-1].sample, seed=arguments.seed) if arguments.against else {}
    told = _told(arguments, played, differing)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
    else:
        columns = {one.policy: one.figures for one in played}
        print("\n".join(table(columns | {"difference": differing} if differing else columns)))
    if draw is not None:
        title = f"{arguments.trace.stem} at {arguments.load:g}x, {told['replicas']} engines"
        draw(arguments.chart, {one.policy: one.replay.tally.windows for one in played}, title=title)
    return _held(bounds, told)


def _held(bounds: list[Bound], told: Told) -> int:
    broken = [bound for bound in bounds if not bound.holds(told)]
    for bound in broken:
        value = told[bound.key]
        is_ = f"{value:.6g}" if isinstance(value, float) else "unknown"
        print(f"broken: {bound}, and it is {is_}", file=sys.stderr)
    return BROKEN if broken else 0


def _stage(policy: str, arguments: argparse.Namespace) -> Stage:
    return read_stage(policy_path(policy), route=arguments.route, replicas=arguments.replicas)


def _conditions(arguments: argparse.Namespace) -> Conditions:
    rows = count_rows(arguments.trace, arguments.limit)
    engines = dict(_engine(text) for text in arguments.engine)
    return Conditions(
        default_engine=engines.pop("", EngineModel(block_tokens=arguments.block_tokens)),
        engines=engines,
        cache_blocks=arguments.blocks,
        gateways=arguments.gateways,
        share_s=arguments.share_ms / 1000 if arguments.share_ms is not None else None,
        prediction=arguments.predict or ("policy" if has_words(arguments.trace) else "median"),
        objective=Objective(ttft_s=arguments.slo_ttft_s, tpot_s=arguments.slo_tpot_s),
        warm_up=int(rows * arguments.warm_up),
        seed=arguments.seed,
    )


def _engine(text: str) -> tuple[str, EngineModel]:
    backend, equals, file = text.rpartition("=")
    return (backend, read_engine(Path(file))) if equals else ("", read_engine(Path(text)))


def _play(policy: str, stage: Stage, arguments: argparse.Namespace, conditions: Conditions) -> _Played:
    options = TraceOptions(
        load=arguments.load,
        spread_ms=arguments.spread_ms,
        rate_per_s=arguments.rate,
        seed=arguments.seed,
        block_tokens=arguments.block_tokens,
        limit=arguments.limit,
    )
    replay = Replay(stage, conditions)
    replay.run(read_trace(arguments.trace, options))
    sample = Sample(replay.tally.windows, usd_per_s=arguments.usd_per_hour * len(replay.engines) / 3600)
    return _Played(policy, replay, sample, figures(sample, seed=arguments.seed))


def _told(arguments: argparse.Namespace, played: list[_Played], differing: Mapping[str, Figure]) -> Told:
    ours, theirs = played[0], played[-1]
    told: Told = {
        "policy": ours.policy,
        "trace": str(arguments.trace),
        "requests": sum(window.ttft_s.count for window in ours.replay.tally.windows),
        "replicas": len(ours.replay.engines),
        "blocks": arguments.blocks,
        "load": arguments.load,
        "gateways": arguments.gateways,
        "share_ms": arguments.share_ms,
        "seed": arguments.seed,
        **keys_of(ours.figures),
        "decide_us_p50": ours.replay.decide_us.quantile(0.5),
        "decide_us_p99": ours.replay.decide_us.quantile(0.99),
    }
    if differing:
        told |= {"against": theirs.policy, **keys_of(theirs.figures, prefix="against_")}
        told |= keys_of(differing, prefix="difference_")
    return told


def _count(most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if not 1 <= value <= most:
            raise argparse.ArgumentTypeError(f"must be from 1 to {most:,}, and is {text}")
        return value

    return number


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be more than 0, and is {text}")
    return value


def _not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be at least 0, and is {text}")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be from 0 to below 1, and is {text}")
    return value


def _share_ms(text: str) -> float | None:
    return None if text == "never" else _not_negative(text)
