"""How near a simulated engine comes to the real one whose log its speeds were fitted to.

    python tests/benchmarks/engine_fit.py LOG.jsonl ...

The requests of the log arrive when they arrived and have the lengths that they had. Printed are the fitted speeds, and
how far first tokens, last tokens and the time per token are from the real ones: the means, and the median of how far a
single request is off. A log has the fields of ``headrace replay --engine``, and ``queued_ts``, when a request arrived.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

from gateway.replay.engine import Engine, Event, Job
from gateway.replay.engine_file import read_engine


def played_again(log: Sequence[dict[str, Any]], path: Path) -> list[Job]:
    """The log's requests, served by the engine that was fitted to it."""
    began_s = min(row["queued_ts"] for row in log)
    engine, events, jobs = Engine(read_engine(path), cache_blocks=1), list[Event](), list[Job]()
    for number, row in enumerate(log):
        jobs.append(
            Job(
                number,
                arrived_s=row["queued_ts"] - began_s,
                prompt_tokens=row["input_toks"],
                output_tokens=row["output_toks"],
                blocks=(),
            )
        )
        engine.advance(jobs[-1].arrived_s, events)
        engine.submit(jobs[-1])
    engine.advance(inf, events)
    return jobs


def compare(path: Path) -> None:
    """Prints the fit of one log."""
    log = sorted(map(json.loads, path.read_text(encoding="utf-8").splitlines()), key=lambda row: row["queued_ts"])
    jobs = played_again(log, path)
    print(f"\n{path.name}: {read_engine(path)}")
    told = {
        "first token s": (
            [row["first_token_ts"] - row["queued_ts"] for row in log],
            [job.first_token_s - job.arrived_s for job in jobs],
        ),
        "last token s": (
            [row["last_token_ts"] - row["queued_ts"] for row in log],
            [job.finished_s - job.arrived_s for job in jobs],
        ),
        "s per token": (
            [(row["last_token_ts"] - row["first_token_ts"]) / max(row["output_toks"] - 1, 1) for row in log],
            [(job.finished_s - job.first_token_s) / max(job.output_tokens - 1, 1) for job in jobs],
        ),
    }
    for name, (real, simulated) in told.items():
        off = statistics.median(
            abs(ours - theirs) / theirs for ours, theirs in zip(simulated, real, strict=True) if theirs
        )
        means = f"mean {statistics.mean(real):.3f} real, {statistics.mean(simulated):.3f} simulated"
        print(f"{name}: {means}; median off {off:.1%}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("logs", type=Path, nargs="+")
    for path in parser.parse_args().logs:
        compare(path)


if __name__ == "__main__":
    main()
