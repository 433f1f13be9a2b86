"""Where ``headrace serve`` spends its CPU time, by layer and by module, sampled with py-spy under one kind of load.

    python tests/benchmarks/cpu_by_layer.py a16
    python tests/benchmarks/cpu_by_layer.py c16 --seconds 20
    python tests/benchmarks/cpu_by_layer.py n16 --path      the path of request_path.py alone, without system calls

py-spy must be on PATH (``pip install py-spy``) and be allowed to trace a process of ours. A sample belongs to the
innermost frame that is not of the standard library: what asyncio does for us is ours. The event loop has no frame
of its own; its samples are those that end where uvicorn runs it. A system call belongs to whoever makes it.
Only the main thread is sampled, since py-spy takes a thread that waits for the interpreter for one that works; what the
others use, which are the ledger's writer and the spans' exporter, comes from /proc.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import proc
from figures import table
from overhead import SCENARIOS
from path_scripts import SCRIPTS
from programs import load, run_upstream
from servers import ROOT, run_headrace

_FRAME = re.compile(r"\((?P<file>[^()]*):\d+\)$")
_STANDARD = re.compile(r"/lib/python3\.\d+/(?!site-packages/)|^<")
_OURS = ("gateway", "policies", "backends")
_AT_WORK = re.compile(r"/(?:gateway|policies|backends)/")
_PARTS = (
    ("both ends of HTTP", re.compile(r"gateway/transport/")),
    ("JSON and events", re.compile(r"gateway/wire/")),
    ("forecast, and what it learns", re.compile(r"policies/classify/")),
    (
        "fleet: load, speeds, warm prefixes",
        re.compile(r"gateway/fleet/"),
    ),
    ("decision: filters, costs, rank", re.compile(r"gateway/decide|policies/(filter|cost|rank)/")),
    ("ledger, metrics, spans", re.compile(r"gateway/(stores|ledger|telemetry)/")),
    ("the story: door, pipeline, attempt, sink, backend", re.compile(r"")),
)
"""The first that fits."""
_LAYERS = {"uvicorn": "server: uvicorn", "uvloop": "event loop: uvloop and its system calls"}


def sample(key: str, seconds: int, folder: Path) -> tuple[str, float]:
    """Stacks and how often each was seen, in py-spy's raw format, under the load of a scenario.

    Also the share of all CPU time that the other threads than the main one used meanwhile.
    """
    spy = shutil.which("py-spy")
    if spy is None:
        raise SystemExit("py-spy is needed: pip install py-spy")
    scenario, stacks = SCENARIOS[key], folder / "stacks"
    with run_upstream() as upstream, run_headrace(folder, upstream.port) as server:
        upstream.serve(scenario.upstream)
        load(server.port, replace(scenario, seconds=1).options(server), timeout_s=60)
        command = [spy, "record", "--pid", str(server.pid), "--duration", str(seconds), "--rate", "200"]
        command += ["--format", "raw", "--full-filenames", "--output", str(stacks)]
        all_s, main_s = proc.cpu_s(server.pid), proc.main_thread_cpu_s(server.pid)
        watching = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        load(server.port, replace(scenario, seconds=seconds + 2).options(server), timeout_s=seconds + 90)
        if watching.wait():
            raise SystemExit("py-spy failed; it needs the right to trace (CAP_SYS_PTRACE, or root)")
        all_s, main_s = proc.cpu_s(server.pid) - all_s, proc.main_thread_cpu_s(server.pid) - main_s
    return stacks.read_text(), 1 - main_s / all_s


def sample_path(key: str, rounds: int, folder: Path) -> str:
    """The same stacks of ``request_path.py``, which has no server, no client and no socket."""
    path = [sys.executable, str(ROOT / "tests/benchmarks/request_path.py"), key, "--rounds", str(rounds)]
    command = ["py-spy", "record", "--rate", "200", "--format", "raw", "--full-filenames", "--output"]
    subprocess.run([*command, str(folder / "stacks"), "--", *path], check=True, capture_output=True)
    lines = (folder / "stacks").read_text().splitlines()
    return "\n".join(line for line in lines if "uvloop" in line and _AT_WORK.search(line))


def place(stack: str) -> tuple[str, str]:
    """The layer of a stack's innermost frame, and its module where that is ours."""
    for frame in reversed(stack.split(";")):
        found = _FRAME.search(frame)
        file = found["file"] if found else ""
        if not file or _STANDARD.search(file):
            continue
        path = Path(file)
        if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in _OURS:
            module = str(path.relative_to(ROOT))
            return next(name for name, modules in _PARTS if modules.match(module)), module
        package = file.rpartition("/site-packages/")[2].partition("/")[0]
        if package == "uvicorn" and frame.startswith("asyncio_run "):
            return _LAYERS["uvloop"], ""
        return _LAYERS.get(package, f"other: {package}"), ""
    return "other: standard library", ""


def shares(stacks: str) -> tuple[Counter[str], Counter[str]]:
    """Samples by layer, and of those that are ours by module."""
    layers: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        if "_bootstrap " in stack.partition(";")[0]:
            continue  # another thread than the main one
        layer, module = place(stack)
        layers[layer] += int(count)
        if module:
            modules[module] += int(count)
    return layers, modules


def main() -> int:
    """Samples and prints."""
    parser = argparse.ArgumentParser(description="Where headrace serve spends its CPU time.")
    parser.add_argument("scenario", choices=SCENARIOS.keys() | SCRIPTS.keys(), help="those of the path: with --path")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--path", action="store_true", help="the path alone, without server, client and sockets")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.path:
            stacks, elsewhere = sample_path(options.scenario, options.seconds, Path(folder)), None
        else:
            stacks, elsewhere = sample(options.scenario, options.seconds, Path(folder))
    layers, modules = shares(stacks)
    whole = layers.total()
    for title, counted in (("layer", layers), ("of ours, module", modules)):
        rows = [[name, f"{100 * count / whole:.1f} %"] for name, count in counted.most_common(25)]
        print(table([title, f"share of {whole:,} samples of the main thread"], rows), end="\n\n")
    if elsewhere is not None:
        print(f"other threads: {100 * elsewhere:.1f} % of all CPU time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
