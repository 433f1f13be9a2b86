"""Random requests on the embedded engine: every one comes to its end, nothing stays behind, memory stays flat.

    python tests/benchmarks/fuzz_engine.py                      # 10,000 requests on the toy model
    python tests/benchmarks/fuzz_engine.py --model              # 300 on the default model, from the model cache
    python tests/benchmarks/fuzz_engine.py --requests 1000 --seed 7

What is promised is in tests/fuzzing/engine_play.py; a promise that is broken ends the run with a traceback and the
seed. Memory rises while the bounded stores of past outputs and prefixes fill, on the toy up to some 15,000 requests,
and hardly from there: 73 MiB after 2,500, 114 after 15,000, 119 after 25,000.
"""

import argparse
import resource
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from embedded_engine.engine import Engine  # noqa: E402 - the path comes first
from embedded_engine.known_models import DEFAULT_MODEL  # noqa: E402
from embedded_engine.models import default_model_dir, find_model  # noqa: E402
from embedded_engine.settings import EngineSettings  # noqa: E402
from tests.fuzzing.engine_play import Play  # noqa: E402
from tests.unit.embedded_engine.toy import ToyKernels  # noqa: E402

_PAGE_BYTES = resource.getpagesize()
_ROUNDS = 10


def engines(*, on_model: bool) -> Engine:
    """An engine with a tiny context, so that requests meet its edges."""
    if on_model:
        path = find_model(DEFAULT_MODEL, default_model_dir()).path
        return Engine(EngineSettings(model_path=path, context_tokens=192, slots=4, queue_limit=8, threads=1))
    settings = EngineSettings(
        model_path="toy",
        context_tokens=96,
        slots=4,
        queue_limit=8,
        step_tokens=24,
        threads=1,
        prefix_cache_bytes=2**20,
    )
    return Engine(settings, _Forgetful())


class _Forgetful(ToyKernels):
    """Keeps no record of its batches: this is about the engine's memory."""

    def decode(self, rows: list) -> None:  # type: ignore[type-arg, override] # only passed on
        """See `Kernels.decode`."""
        self.batches.clear()
        super().decode(rows)


def resident_mib() -> float:
    """Of this process, where there is a /proc; else the most that it ever had."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * _PAGE_BYTES / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def main() -> None:
    """Play, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, help="how many (default 10,000; 300 with --model)")
    parser.add_argument("--seed", type=int, default=1, help="what is asked (default 1)")
    parser.add_argument("--model", action="store_true", help="on the default model, not on the toy")
    options = parser.parse_args()
    requests = options.requests or (300 if options.model else 10_000)
    engine = engines(on_model=options.model)
    started_s, tally, memory = time.monotonic(), {}, []
    for number in range(_ROUNDS):
        play = Play(engine, seed=options.seed * _ROUNDS + number)
        play.run(requests // _ROUNDS)
        memory.append(resident_mib())
        tally = {code: tally.get(code, 0) + play.tally[code] for code in {*tally, *play.tally}}
        print(f"{(number + 1) * requests // _ROUNDS:6} requests, {memory[-1]:.0f} MiB", flush=True)
    print(f"\nseed {options.seed}, {time.monotonic() - started_s:.0f} s: {dict(sorted(tally.items()))}")
    print(f"memory at half the requests {memory[_ROUNDS // 2 - 1]:.1f} MiB, at the end {memory[-1]:.1f} MiB")


if __name__ == "__main__":
    main()
