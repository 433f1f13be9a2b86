"""``headrace replay POLICY TRACE``: what a policy would do with a trace, on simulated engines."""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gateway.preset_files import policy_path
from gateway.replay.bounds import read_bound
from gateway.replay.figures import FIGURES, Figure, differences, figures
from gateway.replay.prediction import PREDICTIONS
from gateway.replay.report import Told, keys_of, table
from gateway.replay.run import Conditions, Objective, Replay
from gateway.replay.scene import read_stage
from gateway.replay.trace import TraceOptions, count_rows, has_words, read_trace

BROKEN = 3
"""The exit code where a bound does not hold."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("policy", help="policy file, or the name of a preset such as `default`")
    parser.add_argument("trace", type=Path, help="JSONL file: Mooncake's format, the ledger's export, or prompts")
    parser.add_argument("--against", metavar="POLICY", help="compare with another policy on the same trace")
    parser.add_argument(
        "--bound",
        action="append",
        default=[],
        metavar="BOUND",
        help="exit with 3 unless it holds: `ttft_p95_s<=4.4`; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--route", help="the policy's route, where it has several")
    fleet = parser.add_argument_group("fleet")
    fleet.add_argument(
        "--replicas", type=_count(1024), help="engines; without it one a target, or eight of a single one"
    )
    fleet.add_argument("--blocks", type=_count(10**8), default=5000, help="blocks of each engine's prefix cache")
    fleet.add_argument("--gateways", type=_count(64), default=1, help="replicas of the gateway, each with its own view")
    trace = parser.add_argument_group("trace")
    trace.add_argument("--load", type=_positive, default=1.0, help="1.3 plays the trace 1.3 times as fast")
    trace.add_argument("--limit", type=_count(10**12), help="read so many rows at most")
    trace.add_argument(
        "--block-tokens", type=_count(10**6), default=512, help="tokens that one of `hash_ids` stands for"
    )
    trace.add_argument(
        "--spread-ms",
        type=_not_negative,
        help="spread rows of one timestamp over so long; the step of a coarse clock by default",
    )
    trace.add_argument("--rate", type=_positive, default=1.0, help="arrivals a second, where rows have no timestamp")
    trace.add_argument("--warm-up", type=_share, default=0.1, help="the share of the trace that is not counted")
    trace.add_argument(
        "--predict",
        choices=PREDICTIONS,
        help="the forecast: by the policy where there are words, else by the running median",
    )
    trace.add_argument("--seed", type=_count(2**31), default=1, help="of everything that is drawn")
    goal = parser.add_argument_group("objective")
    goal.add_argument("--slo-ttft-s", type=_positive, default=3.0, help="a good answer begins within so long")
    goal.add_argument("--slo-tpot-s", type=_positive, default=math.inf, help="and writes a token in so long")


@dataclass(frozen=True, slots=True)
class _Played:
    policy: str
    replay: Replay
    figures: dict[str, Figure]


def run(arguments: argparse.Namespace) -> int:
    """Prints the figures; 0, or 3 where a bound does not hold."""
    bounds = [read_bound(text, dict.fromkeys(FIGURES)) for text in arguments.bound]
    conditions = _conditions(arguments)
    ours = _play(arguments.policy, arguments, conditions)
    theirs = _play(arguments.against, arguments, conditions) if arguments.against else None
    told = _told(arguments, ours, theirs)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
    else:
        columns = {ours.policy: ours.figures}
        if theirs is not None:
            columns |= {theirs.policy: theirs.figures, "difference": _differences(ours, theirs, arguments.seed)}
        print("\n".join(table(columns)))
    broken = [bound for bound in bounds if not bound.holds(told)]
    for bound in broken:
        print(f"broken: {bound}, and it is {told[bound.key]:.6g}")
    return BROKEN if broken else 0


def _conditions(arguments: argparse.Namespace) -> Conditions:
    rows = count_rows(arguments.trace, arguments.limit)
    words = has_words(arguments.trace)
    return Conditions(
        cache_blocks=arguments.blocks,
        gateways=arguments.gateways,
        prediction=arguments.predict or ("policy" if words else "median"),
        objective=Objective(ttft_s=arguments.slo_ttft_s, tpot_s=arguments.slo_tpot_s),
        warm_up=int(rows * arguments.warm_up),
        seed=arguments.seed,
    )


def _play(policy: str, arguments: argparse.Namespace, conditions: Conditions) -> _Played:
    stage = read_stage(policy_path(policy), route=arguments.route, replicas=arguments.replicas)
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
    return _Played(policy, replay, figures(replay.tally.windows, seed=arguments.seed))


def _differences(ours: _Played, theirs: _Played, seed: int) -> dict[str, Figure]:
    return differences(ours.replay.tally.windows, theirs.replay.tally.windows, seed=seed)


def _told(arguments: argparse.Namespace, ours: _Played, theirs: _Played | None) -> Told:
    told: Told = {
        "policy": ours.policy,
        "trace": str(arguments.trace),
        "requests": sum(window.ttft_s.count for window in ours.replay.tally.windows),
        "replicas": len(ours.replay.engines),
        "blocks": arguments.blocks,
        "load": arguments.load,
        "gateways": arguments.gateways,
        "seed": arguments.seed,
        **keys_of(ours.figures),
        "decide_us_p50": ours.replay.decide_us.quantile(0.5),
        "decide_us_p99": ours.replay.decide_us.quantile(0.99),
    }
    if theirs is not None:
        told |= {"against": theirs.policy, **keys_of(theirs.figures, prefix="against_")}
        told |= keys_of(_differences(ours, theirs, arguments.seed), prefix="difference_")
    return told


def _count(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text)
        if not 1 <= number <= most:
            raise argparse.ArgumentTypeError(f"must be from 1 to {most:,}, and is {number}")
        return number

    read.__name__ = "number"  # argparse names it where the text is none
    return read


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be more than 0, and is {text}")
    return number


def _not_negative(text: str) -> float:
    number = float(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"must be at least 0, and is {text}")
    return number


def _share(text: str) -> float:
    number = float(text)
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError(f"must be from 0 to below 1, and is {text}")
    return number
