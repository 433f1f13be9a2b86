"""Makes up what clients and upstreams may do to the gateway's two HTTP drivers, and looks for what breaks a promise.

    python tests/benchmarks/fuzz_transport.py --minutes 60
    python tests/benchmarks/fuzz_transport.py --minutes 5 --seed 7 --driver upstream
    python tests/benchmarks/fuzz_transport.py --play tests/benchmarks/out/fuzz-1f2e3d4c.json

Cases (see ``tests/fuzzing``) are mutated from those that reached new transitions between lines of
``gateway/transport``. What fails is made as short as it can be, and written to ``tests/benchmarks/out``; exits with 1.
``--keep`` writes the shortest cases that reach all that was reached to the corpus that the unit tests play.
"""

import argparse
import asyncio
import hashlib
import logging
import random
import sys
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
from mutants import SEEDS, WORDS, Mutator

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.fuzzing.case import Case  # noqa: E402  # found by the line above
from tests.fuzzing.play import play  # noqa: E402  # likewise

OUT = ROOT / "tests/benchmarks/out"
CORPUS = ROOT / "tests/unit/gateway/transport/corpus"
WATCHED = str(ROOT / "gateway/transport")
SAY_EVERY_S = 60


class Coverage:
    """Notes which line of the watched files follows which."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, int, int]] = set()
        self.now: set[tuple[str, int, int]] = set()

    def __enter__(self) -> None:
        self.now = set()
        sys.settrace(self._called)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def news(self) -> bool:
        """Whether the last case brought any."""
        new = not self.now <= self.seen
        self.seen |= self.now
        return new

    def _called(self, frame: FrameType, _: str, __: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(WATCHED):
            return None
        name, before, now = code.co_filename + code.co_name, 0, self.now

        def line(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal before
            if event == "line":
                now.add((name, before, frame.f_lineno))
                before = frame.f_lineno
            return line

        return line


class Hunt:
    """Plays cases for as long as there is time."""

    def __init__(self, drivers: list[str], seed: int) -> None:
        self.executions = 0
        self.found: dict[str, Path] = {}
        self._dice = random.Random(seed)  # noqa: S311  # cases must be repeatable, not secret
        self._mutator = Mutator(self._dice)
        self._coverage = {driver: Coverage() for driver in drivers}
        self._pool: dict[str, list[tuple[Case, frozenset[Any]]]] = {driver: [] for driver in drivers}

    async def run(self, seconds: float) -> None:
        """Plays what is known, then mutants of what reached something."""
        end_s, say_s = time.monotonic() + seconds, time.monotonic() + SAY_EVERY_S
        for case in (*SEEDS, *read_corpus()):
            if case.driver in self._pool:
                await self._try(case)
        while (now_s := time.monotonic()) < end_s:
            for driver, pool in self._pool.items():
                if not pool or self._dice.random() < 0.02:
                    case = self._mutator.new(driver)
                else:
                    case = self._mutator.mutate(self._dice.choice(pool)[0], self._dice.choice(pool)[0])
                await self._try(case)
            if now_s > say_s:
                say_s += SAY_EVERY_S
                print(self, flush=True)

    def __str__(self) -> str:
        reached = ", ".join(f"{driver} {len(coverage.seen)}" for driver, coverage in self._coverage.items())
        kept = sum(map(len, self._pool.values()))
        return (
            f"{self.executions} cases played, transitions reached: {reached}; {kept} kept, {len(self.found)} failures"
        )

    def shortest(self) -> list[Case]:
        """Few short cases that reach all that was reached."""
        chosen: list[Case] = []
        for pool in self._pool.values():
            left = set().union(*(reached for _, reached in pool))
            while left:
                best = max(pool, key=lambda kept: (len(kept[1] & left), -len(msgspec.json.encode(kept[0]))))
                left -= best[1]
                chosen.append(best[0])
        return chosen

    async def _try(self, case: Case) -> None:
        self.executions += 1
        coverage = self._coverage[case.driver]
        with coverage:
            error = await failure(case)
        if error is not None:
            await self._report(case, error)
        elif coverage.news():
            self._pool[case.driver].append((case, frozenset(coverage.now)))

    async def _report(self, case: Case, error: Exception) -> None:
        what = signature(error)
        if what in self.found:
            return
        case = await shortened(case, what)
        OUT.mkdir(exist_ok=True)
        data = msgspec.json.encode(case)
        self.found[what] = OUT / f"fuzz-{hashlib.sha256(data).hexdigest()[:8]}.json"
        self.found[what].write_bytes(data)
        print(f"FAILURE {what}\n  {self.found[what]}", flush=True)


async def failure(case: Case) -> Exception | None:
    """What a case breaks, or ``None``."""
    try:
        await play(case)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what is looked for
        return error
    return None


def signature(error: Exception) -> str:
    """What tells one failure from another: its type and place."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    words = str(error).partition("\n")[0][:60]
    return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {words}"


async def shortened(case: Case, what: str) -> Case:
    """The same failure in as few steps as possible."""
    at = 0
    while at < len(case.steps):
        shorter = msgspec.structs.replace(case, steps=case.steps[:at] + case.steps[at + 1 :])
        error = await failure(shorter)
        if error is not None and signature(error) == what:
            case = shorter
        else:
            at += 1
    return case


def read_corpus() -> list[Case]:
    """The cases that are kept."""
    lines = [line for file in sorted(CORPUS.glob("*.jsonl")) for line in file.read_bytes().splitlines()]
    return [msgspec.json.decode(line, type=Case) for line in lines]


def keep(cases: list[Case]) -> None:
    """Writes them in place of the corpus' own."""
    CORPUS.mkdir(exist_ok=True)
    for driver in {case.driver for case in cases}:
        lines = sorted(
            {msgspec.json.encode(case) for case in cases if case.driver == driver}, key=lambda it: (len(it), it)
        )
        (CORPUS / f"{driver}.jsonl").write_bytes(b"\n".join(lines) + b"\n")


def main() -> int:
    """Hunts, or plays one case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=None, help="repeats the order of cases; printed where not given")
    parser.add_argument("--driver", choices=sorted(WORDS), help="one of the two alone")
    parser.add_argument("--keep", action="store_true", help="write the corpus")
    parser.add_argument("--play", type=Path, help="play the case in this file")
    given = parser.parse_args()
    logging.disable()  # who serves breaks on purpose
    if given.play:
        asyncio.run(play(msgspec.json.decode(given.play.read_bytes(), type=Case)))
        return 0
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}", flush=True)
    hunt = Hunt([given.driver] if given.driver else sorted(WORDS), seed)
    asyncio.run(hunt.run(given.minutes * 60))
    print(hunt)
    if given.keep:
        keep([*SEEDS, *hunt.shortest()])
    return 1 if hunt.found else 0


if __name__ == "__main__":
    sys.exit(main())
