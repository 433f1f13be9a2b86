"""How often a canary is rolled back that is as good as the others, and how soon one that is not.

    python tests/benchmarks/canary.py

Simulated trials with the real test, looked at after every task. The others succeed nine times in ten; costs are
exponential, so that they vary as widely as their mean. Writes ``out/canary.json``; prints a table. About three minutes.
"""

import argparse
import json
import sys
from pathlib import Path
from random import Random

from figures import table

from gateway.rules.steer import Canary
from gateway.steering.canary import CanaryState, Trial
from gateway.steering.tallies import Tallies

OUT = Path(__file__).with_name("out")
OTHERS, USD = 0.9, 0.001
KINDS = (
    ("as good", OTHERS, USD),
    ("succeeds 75 %", 0.75, USD),
    ("succeeds 60 %", 0.6, USD),
    ("succeeds 40 %", 0.4, USD),
    ("succeeds 20 %", 0.2, USD),
    ("costs three times as much", OTHERS, 3 * USD),
)


def main() -> int:
    """Runs the trials, prints and writes."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    rows, found = [], []
    for name, success, usd in KINDS:
        for share in (0.05, 0.1):
            trials, tasks = (250, 1000) if name == "as good" else (60, 3000)
            ends = [_rolled_back_after(seed, tasks, success=success, usd=usd, share=share) for seed in range(trials)]
            caught = sorted(end for end in ends if end is not None)
            median = caught[len(caught) // 2] if caught else None
            most = caught[len(caught) * 9 // 10] if caught else None
            found.append({"canary": name, "share": share, "trials": trials, "tasks": tasks,
                          "rolled_back": len(caught) / trials, "median": median, "p90": most})  # fmt: skip
            rows.append((name, f"{share:.0%}", f"{len(caught) / trials:.1%}", f"{tasks:,}", str(median), str(most)))
    OUT.mkdir(exist_ok=True)
    (OUT / "canary.json").write_text(json.dumps(found, indent=2))
    print(table(("canary", "share", "rolled back", "within tasks", "median task", "nine in ten"), rows))
    return 0


def _rolled_back_after(seed: int, tasks: int, *, success: float, usd: float, share: float) -> int | None:
    canary = Canary(backend="new", model="m", share=share, confidence=0.95, when_better="report", run=1)
    trial = Trial("route", canary, Tallies(f"seed-{seed}"))
    dice = Random(seed)  # noqa: S311  # a script's dice
    for task in range(1, tasks + 1):
        mine = trial.draws(f"{seed}/{task}")
        rate, mean_usd = (success, usd) if mine else (OTHERS, USD)
        trial.count(
            canary=mine, success=dice.random() < rate, usd=dice.expovariate(1 / mean_usd), guess=None, unix_s=1.0
        )
        if trial.conclude(now_unix_s=float(task)) is CanaryState.ROLLED_BACK:
            return task
    return None


if __name__ == "__main__":
    sys.exit(main())
