"""What does it take to move cells together where an answer has left that grew between others?

    python tests/benchmarks/engine_holes.py               half a minute; the default model, Q8_0, two threads

Two texts are read side by side, token by token, so that their cells alternate; one leaves, and as many holes of one
cell each are closed as it had tokens. Told is the time, and the CPU time of the whole process: with one thread, as the
kernels close them, and with two, as a step has them, which wait for one another after each of thousands of copies.
Beside other work on the machine these take many times as long.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median

from figures import table

from embedded_engine.kernels.ik_llama import IkLlamaKernels, load
from embedded_engine.kernels.port import ContextShape, Row
from embedded_engine.known_models import DEFAULT_MODEL
from embedded_engine.models import default_model_dir
from embedded_engine.pull import pull_model

TEXT = "The miller opens a gate when there is corn to grind, and closes it when the pond runs low. " * 60
SHAPE = ContextShape(kv_tokens=2048, sequences=2, threads=2, batch_rows=64, micro_batch_rows=31)
HOLES = (1, 32, 320)
OUT = Path(__file__).parent / "out" / "engine_holes.json"


def main() -> int:
    """Measures, writes and prints the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured; the median is told")
    given = parser.parse_args()
    path = pull_model(DEFAULT_MODEL, default_model_dir(), say=print, progress=lambda _done, _total: None).path
    kernels, figures = load(str(path)), {}
    kernels.open_context(SHAPE)
    for threads in (1, 2):
        IkLlamaKernels.moving_threads = threads
        for holes in HOLES:
            took_ms, cpu_ms = zip(*(_closed(kernels, holes) for _ in range(given.rounds)), strict=True)
            figures[f"{holes} holes, threads: {threads}"] = {"ms": median(took_ms), "cpu_ms": median(cpu_ms)}
    kernels.close()
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(figures, indent=1))
    rows = [[name, *(f"{ms:.1f}" for ms in found.values())] for name, found in figures.items()]
    print(table(["", "ms", "CPU ms"], rows))
    return 0


def _closed(kernels: IkLlamaKernels, holes: int) -> tuple[float, float]:
    """How long it took, and how much CPU time, in milliseconds."""
    tokens = kernels.tokenize(TEXT, add_special=False, parse_special=False)[:holes]
    rows = [Row(sequence, token, at, wants_logits=False) for at, token in enumerate(tokens) for sequence in (1, 0)]
    for start in range(0, len(rows), 30):
        kernels.decode(rows[start : start + 30])
    kernels.remove(1)
    started_s, cpu_s = time.perf_counter(), time.process_time()
    kernels.compact(0)
    took_s, spent_s = time.perf_counter() - started_s, time.process_time() - cpu_s
    kernels.remove(0)
    return took_s * 1000, spent_s * 1000


if __name__ == "__main__":
    sys.exit(main())
