"""Ten thousand random requests against an engine: parameters, cancels, Unicode, tiny contexts, failing kernels.

    python tests/benchmarks/engine_fuzz.py                         10,000 on a toy model; some minutes
    python tests/benchmarks/engine_fuzz.py --real --requests 300   on the default model

Every answer that is not dropped must end, once; no row may be stuck and no cell held; and the process must not grow,
which is measured after the first part and after the last.
"""

import argparse
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

from proc import resident_bytes

sys.path.insert(0, str(Path(__file__).parents[2]))

from embedded_engine.engine import Engine
from embedded_engine.known_models import DEFAULT_MODEL
from embedded_engine.models import default_model_dir, find_model
from embedded_engine.settings import EngineSettings
from tests.unit.embedded_engine.fuzz import Fuzz
from tests.unit.embedded_engine.toy import ToyKernels

_PARTS = 10
_MEGABYTE = 1e6


def main() -> int:
    """Fuzz and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real", action="store_true", help="on the default model instead of a toy")
    arguments = parser.parse_args()
    engine = _real() if arguments.real else _toy(arguments.seed)
    fuzz, free = Fuzz(engine, arguments.seed), engine.free_kv_tokens
    started_s, first_bytes = time.monotonic(), 0
    for part in range(1, _PARTS + 1):
        fuzz.send(arguments.requests // _PARTS)
        fuzz.finish(most_steps=1000 * arguments.requests)
        held = free - engine.free_kv_tokens
        if engine.running or engine.queued or held:
            print(f"{engine.running} run, {engine.queued} wait, {held} cells are held", file=sys.stderr)
            return 1
        now_bytes = resident_bytes(os.getpid())
        first_bytes = first_bytes or now_bytes
        print(
            f"{part * arguments.requests // _PARTS:6} requests, {time.monotonic() - started_s:4.0f} s, "
            f"{now_bytes / _MEGABYTE:.0f} MB ({(now_bytes - first_bytes) / _MEGABYTE:+.0f})",
            flush=True,
        )
    print(", ".join(f"{name} {count}" for name, count in Counter(fuzz.counts).most_common()))
    return 0


def _toy(seed: int) -> Engine:
    dice = random.Random(seed)  # noqa: S311 - which batch fails, no secret
    kernels = ToyKernels()
    kernels.batches = _Forgetful()
    settings = EngineSettings(
        model_path="toy.gguf",
        context_tokens=96, slots=4, lanes=2, kv_tokens=200, threads=1, step_tokens=16,
        prefix_cache_bytes=20_000,
    )
    engine = Engine(settings, kernels)
    kernels.fails = lambda _: dice.random() < 0.001
    return engine


def _real() -> Engine:
    model = find_model(DEFAULT_MODEL, default_model_dir())
    sizes = {"context_tokens": 256, "slots": 8, "lanes": 2, "kv_tokens": 1024, "threads": 1}
    return Engine(EngineSettings(model_path=model.path, **sizes, prefix_cache_bytes=30_000_000))


class _Forgetful(list[object]):
    """Keeps no book of the batches."""

    def append(self, _batch: object) -> None:
        """Nothing is kept."""


if __name__ == "__main__":
    sys.exit(main())
