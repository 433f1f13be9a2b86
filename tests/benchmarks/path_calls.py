"""What one request takes, counted: functions of ours, functions of C and coroutines, part by part.

    python tests/benchmarks/path_calls.py            n16: a whole answer, never the same prompt
    python tests/benchmarks/path_calls.py c16 e200

The path of ``request_path.py`` on the event loop's own thread, with a profile function that counts and does not time.
A coroutine is entered once when it begins and once each time it goes on; a function of C belongs to who calls it. The
figures hardly depend on the machine: where a request takes two of anything, the code is there twice.
"""

import argparse
import asyncio
import inspect
import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import uvloop
from figures import table
from path_scripts import SCRIPTS, Script
from request_path import open_path
from servers import ROOT

from policies.classify import _lesson_pace

_REQUESTS = 2000
_PARTS = (
    ("the client's end of HTTP", r"gateway/(transport/(server|request|strict|hang_up|response)|content_coding)"),
    ("the upstream's end of HTTP", r"gateway/transport/|backends/_?(upstream|http)"),
    ("JSON, formats, events", r"gateway/(wire/|conversation)"),
    ("forecast, and what it learns", r"policies/classify/"),
    ("fleet: load, speeds, warm prefixes", r"gateway/fleet/"),
    ("decision: filters, costs, rank", r"gateway/(decide|rules/)|policies/(filter|cost|rank)/"),
    ("admission and limits", r"gateway/limits/|policies/admit/|gateway/attempt/admitted"),
    ("attempt: trial, clock, sink, backend, cost", r"gateway/(attempt/|price)|backends/"),
    ("ledger, spool, database", r"gateway/(ledger|stores)/"),
    ("metrics and spans", r"gateway/telemetry/"),
    ("door, pipeline, vocabulary", r"gateway/"),
    ("standard library, uvicorn", r""),
)


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals of a run, by part and kind."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    _parts: dict[str, str] = field(default_factory=dict)

    def take(self, frame: FrameType, event: str, _: Any) -> None:
        """The profile function; see ``sys.setprofile``."""
        code = frame.f_code
        if event == "call":
            self.calls[self._part(code.co_filename), "ours"] += 1
            if code.co_flags & inspect.CO_COROUTINE:
                self.calls[self._part(code.co_filename), "coroutines"] += 1
        elif event == "c_call":
            self.calls[self._part(code.co_filename), "c"] += 1

    def _part(self, file: str) -> str:
        part = self._parts.get(file)
        if part is None:
            path = Path(file)
            local = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
            part = next(name for name, files in _PARTS if re.match(files, local))
            if local.startswith("tests/"):
                part = ""  # the bench itself
            self._parts[file] = part
        return part


async def count(script: Script, classify: str) -> Counts:
    """Counts what ``_REQUESTS`` of the script's requests take, once all caches are full."""
    _lesson_pace.LESSONS_PER_S = 0.0  # they go by the clock
    counts = Counts()
    with tempfile.TemporaryDirectory() as folder:
        gateway, load, clients = await open_path(Path(folder), script, classify)
        sys.setprofile(counts.take)
        await load.run(clients, _REQUESTS)
        sys.setprofile(None)
        await asyncio.sleep(0.1)
        await gateway.close()
    return counts


def main() -> int:
    """Counts and prints."""
    parser = argparse.ArgumentParser(description="What one request takes, counted part by part.")
    parser.add_argument("scripts", nargs="*", default=["n16"], help=f"some of {', '.join(SCRIPTS)}")
    parser.add_argument("--classify", default="learned_length", help="how lengths are forecast")
    options = parser.parse_args()
    for key in options.scripts:
        counts = uvloop.run(count(SCRIPTS[key], options.classify))
        rows = []
        for part, _ in _PARTS:
            rows.append(
                [part, *(f"{counts.calls[part, kind] / _REQUESTS:.1f}" for kind in ("ours", "c", "coroutines"))]
            )
        of_all = [sum(float(row[column]) for row in rows) for column in (1, 2, 3)]
        rows.append(["all", *(f"{one:.1f}" for one in of_all)])
        print(f"{key}: {SCRIPTS[key].title}")
        print(table(["part", "functions of ours", "functions of C", "coroutines entered"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
