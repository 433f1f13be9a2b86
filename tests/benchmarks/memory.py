"""Where the memory of ``headrace serve`` is: by what is loaded, and by part at the start and under load.

    python tests/benchmarks/memory.py                          a minute and a half
    python tests/benchmarks/memory.py --scenarios a16,e200
    python tests/benchmarks/memory.py --loading                only what is loaded, some seconds

Resident memory, as in ``overhead.py``, whose gateway and whose scenarios these are, each twice and one after the other.
What is loaded is measured in a fresh interpreter, step by step: a library that several need is in the first one's.
The report is also written to ``tests/benchmarks/out/memory.json``.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from collector import collect_spans
from figures import short, table
from overhead import SAMPLING, SCENARIOS, measure
from overhead_report import MIB
from programs import HERE, run_upstream
from servers import ROOT, run_headrace
from smaps import PARTS, resident_parts

OUT = HERE / "out" / "memory.json"
ROUNDS = 2
STEPS = {
    "the interpreter": (),
    "asyncio, ssl": ("asyncio",),
    "uvicorn, uvloop, httptools": ("uvicorn", "uvloop", "httptools"),
    "pydantic, yaml: settings and policy file": ("pydantic.main", "yaml", "gateway.settings"),
    "the policy file's models": ("gateway.rules.policy_file",),
    "prometheus_client, starlette": ("prometheus_client", "starlette.applications"),
    "the ledger: sqlite3, zstandard": ("gateway.stores.sql",),
    "formats and their translation": ("gateway.wire.formats", "gateway.wire.hub"),
    "all else that serves": ("gateway.commands.serve",),
    "one provider, one forecast, five costs, three filters": (
        *("backends.openai_compatible", "policies.classify.learned_length"),
        *(f"policies.cost.{name}" for name in ("decoding", "money", "prefill", "risk", "waiting")),
        *(f"policies.filter.{name}" for name in ("capable", "fits_context", "healthy")),
    ),
    "spans, where they are wanted": ("gateway.telemetry.spans", "urllib3"),
    "pages for clients and batches, at the first request": ("gateway.client_pages",),
}

_LADDER = """
import json, resource, sys
from importlib import import_module
from pathlib import Path
page_bytes = resource.getpagesize()
def resident(): return int(Path("/proc/self/statm").read_text().split()[1]) * page_bytes
found, before = {}, 0
for name, modules in json.loads(sys.argv[1]).items():
    for module in modules: import_module(module)
    now = resident()
    found[name], before = now - before, now
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A moment: what came before it, and resident bytes by part."""

    after: str
    parts: Mapping[str, int]

    def row(self) -> list[str]:
        """For the table, in MiB."""
        return [self.after, *(_mib(self.parts[part]) for part in PARTS), _mib(sum(self.parts.values()))]


def loading(steps: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """What each step adds in a fresh interpreter, in bytes."""
    command = [sys.executable, "-c", _LADDER, json.dumps(steps)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: dict[str, int] = json.loads(said)
    return found


def serving(keys: Sequence[str], folder: Path) -> list[Sample]:
    """The gateway's memory at its start, and after each scenario."""
    with collect_spans() as (endpoint, _), run_upstream() as upstream:
        tracing = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **SAMPLING}
        with run_headrace(folder, upstream.port, environment=tracing) as server:
            time.sleep(1)
            samples = [Sample(after="the start", parts=resident_parts(server.pid))]
            for key in keys:
                print(f"{key}: {SCENARIOS[key].title}", file=sys.stderr)
                upstream.serve(SCENARIOS[key].upstream)
                for _ in range(ROUNDS):
                    measure(server, upstream, SCENARIOS[key])
                samples.append(Sample(after=key, parts=resident_parts(server.pid)))
    return samples


def _mib(size_bytes: int) -> str:
    return short(size_bytes / MIB)


def main() -> int:
    """Runs, writes and prints."""
    parser = argparse.ArgumentParser(description="Where the memory of headrace serve is.")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help="some of them")
    parser.add_argument("--loading", action="store_true", help="only what is loaded")
    options = parser.parse_args()
    loaded = loading(STEPS)
    report: dict[str, Any] = {"loaded": loaded}
    print(table(["what is loaded", "MiB"], [[name, _mib(size)] for name, size in loaded.items()]))
    if not options.loading:
        with tempfile.TemporaryDirectory() as folder:
            samples = serving(options.scenarios.split(","), Path(folder))
        print(table(["after", *PARTS, "all, MiB"], [sample.row() for sample in samples]))
        report["samples"] = [asdict(sample) for sample in samples]
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
