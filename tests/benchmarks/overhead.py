"""What ``headrace serve`` costs: CPU time per request and per streamed chunk, added latency, memory, start-up.

    python tests/benchmarks/overhead.py             all scenarios, 5 rounds, about five minutes
    python tests/benchmarks/overhead.py --quick     a smoke run of a few seconds; its figures mean nothing
    python tests/benchmarks/overhead.py --json      the report as JSON on standard output, the table on standard error

The steady figure on a machine that others use too is CPU time: user and system time of the whole process tree over the
requests that reached the upstream. Latency is taken by turns, direct and through, and given as the median of the paired
differences. nginx runs beside us in the same rounds as a bare reverse proxy: what hardly anybody can beat. Both talk
over loopback to the upstream of ``upstream.c``. The report is also written to ``tests/benchmarks/out/overhead.json``.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import proc
from figures import Figure, figure, paired, short, table
from programs import HERE, Upstream, load, run_upstream
from servers import KEY_HEADER, ROOT, Absent, Server, run_headrace, run_nginx

OUT = HERE / "out" / "overhead.json"
MIB = 1024 * 1024

_SETTLE_S = 0.3
"""What comes after an answer, its entry on the ledger, belongs to its cost: a batch lingers for 50 ms at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A kind of load. ``seconds`` is how long it is kept up in each round."""

    title: str
    connections: int
    prompt_bytes: int = 1024
    chunks: int = 0
    delay_us: int = 0
    seconds: float = 1.5

    def options(self) -> list[str]:
        """The load client's arguments, but for how long."""
        options = ["--connections", str(self.connections), "--prompt", str(self.prompt_bytes), "--header", KEY_HEADER]
        if self.chunks:
            mock = f"chunks={self.chunks} delay_us={self.delay_us}"
            options += ["--stream", "--chunks", str(self.chunks), "--mock", mock]
        return options


SCENARIOS = {
    "a1": Scenario(title="whole, 1 KB prompt, 1 connection", connections=1),
    "a16": Scenario(title="whole, 1 KB prompt, 16 connections", connections=16),
    "a64": Scenario(title="whole, 1 KB prompt, 64 connections", connections=64),
    "b16": Scenario(title="whole, 32 KB prompt, 16 connections", connections=16, prompt_bytes=32768),
    "c16": Scenario(title="stream of 64 chunks at once, 16 connections", connections=16, chunks=64),
    "d200": Scenario(title="a chunk every 5 ms, 200 streams", connections=200, chunks=64, delay_us=5_000, seconds=3),
    "e200": Scenario(title="a chunk every 50 ms, 200 streams", connections=200, chunks=32, delay_us=50_000, seconds=3),
}
QUICK = ("a1", "a16", "c16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One server under one load, once. CPU times are microseconds; latencies are the client's medians."""

    cpu_us_per_request: float
    cpu_us_per_chunk: float | None
    p50_us: float
    first_chunk_p50_us: float | None
    transit_p50_us: float | None
    requests: int
    requests_per_s: float
    failed: int
    rss_bytes: int


def measure(server: Server, upstream: Upstream, scenario: Scenario) -> Round:
    """Puts the load on the server and divides its CPU time by what reached the upstream meanwhile."""
    stats, cpu_s = upstream.stats(), proc.cpu_s(server.pid)
    report = _load(server.port, scenario)
    time.sleep(_SETTLE_S)
    spent_us = (proc.cpu_s(server.pid) - cpu_s) * 1e6
    now = upstream.stats()
    requests, chunks = now["requests"] - stats["requests"], now["chunks"] - stats["chunks"]
    return Round(
        cpu_us_per_request=spent_us / max(requests, 1),
        cpu_us_per_chunk=spent_us / chunks if chunks else None,
        p50_us=report["whole_us"].get("p50", float("nan")),
        first_chunk_p50_us=report["first_us"].get("p50"),
        transit_p50_us=report["transit_us"].get("p50"),
        requests=requests,
        requests_per_s=report["requests_per_s"],
        failed=sum(report["errors"].values()),
        rss_bytes=proc.resident_bytes(server.pid),
    )


def _load(port: int, scenario: Scenario) -> dict[str, Any]:
    options = [*scenario.options(), "--seconds", str(scenario.seconds)]
    return load(port, options, timeout_s=scenario.seconds + 90)


def run_scenario(servers: Sequence[Server], upstream: Upstream, scenario: Scenario, rounds: int) -> dict[str, Any]:
    """All servers by turns, ``rounds`` times, each time in the opposite order; and the upstream without any."""
    direct: list[dict[str, Any]] = []
    taken: dict[str, list[Round]] = {server.name: [] for server in servers}
    for number in range(rounds):
        direct.append(_load(upstream.port, replace(scenario, seconds=scenario.seconds / 3)))
        for server in servers if number % 2 else reversed(servers):
            taken[server.name].append(measure(server, upstream, scenario))
    measured = {name: _summary(some, direct) for name, some in taken.items()}
    if "nginx" in taken:
        ours, theirs = ([one.cpu_us_per_request for one in taken[name]] for name in ("headrace", "nginx"))
        measured["headrace"]["cpu_ratio_to_nginx"] = paired(ours, theirs)[1]
    return {"title": scenario.title, "direct_p50_us": figure(one["whole_us"]["p50"] for one in direct), **measured}


def _summary(rounds: Sequence[Round], direct: Sequence[dict[str, Any]]) -> dict[str, Any]:
    def over_rounds(field: str) -> Figure | None:
        values = [getattr(one, field) for one in rounds]
        return figure(values) if None not in values else None

    added, _ = paired([one.p50_us for one in rounds], [one["whole_us"]["p50"] for one in direct])
    return {
        "cpu_us_per_request": over_rounds("cpu_us_per_request"),
        "cpu_us_per_chunk": over_rounds("cpu_us_per_chunk"),
        "added_p50_us": added,
        "first_chunk_p50_us": over_rounds("first_chunk_p50_us"),
        "transit_p50_us": over_rounds("transit_p50_us"),
        "requests_per_s": over_rounds("requests_per_s"),
        "requests": sum(one.requests for one in rounds),
        "failed": sum(one.failed for one in rounds),
        "rss_mib": max(one.rss_bytes for one in rounds) / MIB,
    }


def run(folder: Path, keys: Sequence[str], *, rounds: int, starts: int, quick: bool) -> dict[str, Any]:
    """The whole report."""
    report: dict[str, Any] = {"machine": machine(), "rounds": rounds, "absent": {}}
    with ExitStack() as stack:
        upstream = stack.enter_context(run_upstream())
        report["start_up_s"] = figure(start_ups(folder, upstream, starts))
        servers = [stack.enter_context(run_headrace(_new(folder / "headrace"), upstream.port))]
        try:
            servers.append(stack.enter_context(run_nginx(_new(folder / "nginx"), upstream.port)))
        except Absent as reason:
            report["absent"]["nginx"] = str(reason)
        report["idle_rss_mib"] = {server.name: proc.resident_bytes(server.pid) / MIB for server in servers}
        scenarios = {key: replace(SCENARIOS[key], seconds=0.3) if quick else SCENARIOS[key] for key in keys}
        for server in servers:  # connections, caches, first calls
            _load(server.port, replace(SCENARIOS["a16"], seconds=0.2 if quick else 1.0))
        report["scenarios"] = {
            key: run_scenario(servers, upstream, scenario, rounds) for key, scenario in scenarios.items()
        }
    return report


def start_ups(folder: Path, upstream: Upstream, times: int) -> Iterator[float]:
    """Seconds from the command to the first answer, each time with an empty state directory."""
    for number in range(times):
        with run_headrace(_new(folder / f"start-{number}"), upstream.port) as server:
            yield server.start_up_s


def machine() -> dict[str, Any]:
    """Where the figures come from, without naming it."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "cpu": proc.cpu_model(),
        "cores": os.cpu_count(),
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
        "load_1min": os.getloadavg()[0],
        "commit": commit.stdout.strip() or None,
    }


def tables(report: dict[str, Any]) -> str:
    """The report for people."""
    rows = []
    for key, one in report["scenarios"].items():
        ours, nginx = one["headrace"], one.get("nginx", {})
        columns = [ours["cpu_us_per_request"], ours["cpu_us_per_chunk"], nginx.get("cpu_us_per_request")]
        columns += [nginx.get("cpu_us_per_chunk"), ours.get("cpu_ratio_to_nginx"), ours["requests_per_s"]]
        rows.append([f"{key}: {one['title']}", *(str(column) if column else "" for column in columns)])
    header = ["scenario", "CPU us/request", "us/chunk", "nginx us/request", "us/chunk", "ratio", "requests/s"]
    lines = [table(header, rows), ""]
    failed = sum(one["headrace"]["failed"] for one in report["scenarios"].values())
    alone = report["scenarios"].get("a1", {})
    lines += [
        f"added to the median at one connection: {name} {alone[name]['added_p50_us']} us"
        for name in ("headrace", "nginx")
        if name in alone
    ]
    idle = ", ".join(f"{name} {short(mib)} MiB" for name, mib in report["idle_rss_mib"].items())
    lines += [f"resident when idle: {idle}", f"start-up: {report['start_up_s']} s"]
    lines += [f"failed requests: {failed}"]
    lines += [f"{name} is absent: {reason}" for name, reason in report["absent"].items()]
    return "\n".join(lines)


def main() -> int:
    """Runs, writes, prints; 1 where a request through the gateway failed."""
    parser = argparse.ArgumentParser(description="What headrace serve costs.")
    parser.add_argument("--scenarios", default="", help=f"some of {','.join(SCENARIOS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a smoke run of a few seconds")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args()
    keys = options.scenarios.split(",") if options.scenarios else QUICK if options.quick else tuple(SCENARIOS)
    if unknown := [key for key in keys if key not in SCENARIOS]:
        parser.error(f"there is no scenario {unknown[0]}")
    rounds, starts = (1, 1) if options.quick else (options.rounds, 5)
    with tempfile.TemporaryDirectory() as folder:
        report = run(Path(folder), keys, rounds=rounds, starts=starts, quick=options.quick)
    text = json.dumps(report, indent=1, default=asdict)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(text)
    print(tables(report), file=sys.stderr if options.json else sys.stdout)
    if options.json:
        print(text)
    return int(any(one["headrace"]["failed"] for one in report["scenarios"].values()))


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main())
