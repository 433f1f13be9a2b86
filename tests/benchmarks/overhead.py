"""What ``headrace serve`` costs: CPU time per request and per streamed chunk, added latency, memory, start-up.

    python tests/benchmarks/overhead.py                     all scenarios beside nginx, 5 rounds, about three minutes
    python tests/benchmarks/overhead.py --peers             beside all that `make peers` installed, a quarter of an hour
    python tests/benchmarks/overhead.py --peers nginx litellm --scenarios a16,c16
    python tests/benchmarks/overhead.py --quick             a smoke run of a few seconds; its figures mean nothing

The steady figure on a machine that others use too is CPU time: user and system time of the whole process tree over the
requests that reached the upstream. Latency is taken by turns, direct and through, and given as the median of the paired
differences. All servers take turns in the same rounds; all talk over loopback to the upstream of ``upstream.c``. Ours
does everything that it can: key check, forecast, admission, filters, five cost terms with the prefix index, the ledger
in SQLite, metrics, and spans of one request in ten to a collector.
The report is also written to ``tests/benchmarks/out/overhead.json``, from which ``overhead_chart.py`` draws.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import proc
from collector import collect_spans
from figures import figure, paired
from installed_peers import Absent, run_peer
from overhead_report import MIB, REPORT, report_text
from peers import PEERS
from programs import Upstream, load, run_upstream
from servers import ROOT, Server, ask, run_headrace

START_UPS = 5
SAMPLING = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}

_SETTLE_S = 0.6
"""What comes after an answer, its rows in the ledger, belongs to its cost: they linger for 0.3 s at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A kind of load. ``seconds`` is how long it is kept up in each round."""

    title: str
    connections: int
    prompt_bytes: int = 1024
    chunks: int = 0
    delay_us: int = 0
    seconds: float = 1.0

    @property
    def upstream(self) -> str:
        """How the upstream is to serve it."""
        return f"chunks={self.chunks} delay_us={self.delay_us}"

    def options(self, server: Server) -> list[str]:
        """The load client's arguments for the server."""
        options = ["--connections", str(self.connections), "--prompt", str(self.prompt_bytes)]
        options += ["--seconds", str(self.seconds), "--path", server.path, "--model", server.model]
        for header in server.headers:
            options += ["--header", header]
        if self.chunks:
            options += ["--stream", "--chunks", str(self.chunks), "--ramp-ms", str(self.delay_us // 1000)]
        return options


SCENARIOS = {
    "a1": Scenario(title="whole, 1 KB prompt, 1 connection", connections=1),
    "a16": Scenario(title="whole, 1 KB prompt, 16 connections", connections=16),
    "a64": Scenario(title="whole, 1 KB prompt, 64 connections", connections=64),
    "b16": Scenario(title="whole, 32 KB prompt, 16 connections", connections=16, prompt_bytes=32768),
    "c16": Scenario(title="stream of 64 chunks at once, 16 connections", connections=16, chunks=64),
    "d200": Scenario(title="a chunk every 5 ms, 200 streams", connections=200, chunks=64, delay_us=5_000, seconds=2),
    "e200": Scenario(title="a chunk every 50 ms, 200 streams", connections=200, chunks=32, delay_us=50_000, seconds=2),
}
QUICK = ("a1", "a16", "c16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One server under one load, once. Times are microseconds; latencies are what the client saw.

    ``transit`` is how long a streamed chunk was under way from the upstream to the client.
    """

    cpu_us_per_request: float
    cpu_us_per_chunk: float | None
    p50_us: float
    p99_us: float
    first_chunk_p50_us: float | None
    transit_p50_us: float | None
    transit_p99_us: float | None
    requests: int
    requests_per_s: float
    failed: int
    rss_mib: float


_LATENCIES = ("p50_us", "p99_us", "first_chunk_p50_us", "transit_p50_us", "transit_p99_us")


def measure(server: Server, upstream: Upstream, scenario: Scenario) -> Round:
    """Puts the load on the server and divides its CPU time by what reached the upstream meanwhile."""
    stats, cpu_s = upstream.stats(), proc.cpu_s(server.pid)
    seen = _load(server, scenario)
    time.sleep(_SETTLE_S)
    spent_us = (proc.cpu_s(server.pid) - cpu_s) * 1e6
    now = upstream.stats()
    requests, chunks = now["requests"] - stats["requests"], now["chunks"] - stats["chunks"]
    return Round(
        cpu_us_per_request=spent_us / max(requests, 1),
        cpu_us_per_chunk=spent_us / chunks if chunks else None,
        p50_us=seen["whole_us"].get("p50", float("nan")),
        p99_us=seen["whole_us"].get("p99", float("nan")),
        first_chunk_p50_us=seen["first_us"].get("p50"),
        transit_p50_us=seen["transit_us"].get("p50"),
        transit_p99_us=seen["transit_us"].get("p99"),
        requests=requests,
        requests_per_s=seen["requests_per_s"],
        failed=sum(seen["errors"].values()),
        rss_mib=proc.resident_bytes(server.pid) / MIB,
    )


def _load(server: Server, scenario: Scenario) -> dict[str, Any]:
    return load(server.port, scenario.options(server), timeout_s=scenario.seconds + 120)


def run_scenario(servers: Sequence[Server], upstream: Upstream, scenario: Scenario, rounds: int) -> dict[str, Any]:
    """All servers by turns, ``rounds`` times, each time in the opposite order; and the upstream without any."""
    direct = Server(name="direct", port=upstream.port, pid=upstream.pid, start_up_s=0, state=Path())
    taken: dict[str, list[Round]] = {server.name: [] for server in (direct, *servers)}
    upstream.serve(scenario.upstream)
    for number in range(rounds):
        taken["direct"].append(measure(direct, upstream, replace(scenario, seconds=scenario.seconds / 2)))
        for server in servers if number % 2 else reversed(servers):
            taken[server.name].append(measure(server, upstream, scenario))
    measured = {name: _summary(some, taken) for name, some in taken.items()}
    return {"title": scenario.title, "servers": measured}


def _summary(rounds: Sequence[Round], taken: Mapping[str, Sequence[Round]]) -> dict[str, Any]:
    def over_rounds(field: str, some: Sequence[Round] = rounds) -> list[float] | None:
        values = [getattr(one, field) for one in some]
        return None if None in values else values

    summary: dict[str, Any] = {
        field: figure(values) if (values := over_rounds(field)) else None
        for field in ("cpu_us_per_request", "cpu_us_per_chunk", *_LATENCIES, "requests_per_s")
    }
    for field in _LATENCIES:
        ours, direct = over_rounds(field), over_rounds(field, taken["direct"])
        summary[f"added_{field}"] = paired(ours, direct)[0] if ours and direct else None
    if "nginx" in taken:
        ours, nginx = ([one.cpu_us_per_request for one in some] for some in (rounds, taken["nginx"]))
        summary["cpu_ratio_to_nginx"] = paired(ours, nginx)[1]
    summary |= {name: sum(getattr(one, name) for one in rounds) for name in ("requests", "failed")}
    return summary | {"rss_mib": max(one.rss_mib for one in rounds)}


def run(
    folder: Path, scenarios: Mapping[str, Scenario], names: Sequence[str], rounds: int, classify: str
) -> dict[str, Any]:
    """The whole report; ``names`` are the peers, ``classify`` is how ours forecasts."""
    report: dict[str, Any] = {"rounds": rounds, "classify": classify, "absent": {}, "servers": {}, "scenarios": {}}
    with ExitStack() as stack:
        endpoint, spans = stack.enter_context(collect_spans())
        upstream = stack.enter_context(run_upstream())
        tracing = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **SAMPLING}
        starts = figure(start_ups(folder, upstream, tracing, START_UPS if rounds > 1 else 1))
        headrace = stack.enter_context(
            run_headrace(_new(folder / "headrace"), upstream.port, classify=classify, environment=tracing)
        )
        servers = [headrace]
        for peer in (one for one in PEERS if one.name in names):
            try:
                servers.append(stack.enter_context(run_peer(peer, _new(folder / peer.name), upstream.port)))
            except Absent as reason:
                report["absent"][peer.name] = str(reason)
        for server in servers:
            start_up_s = starts if server is headrace else figure([server.start_up_s])
            idle_mib = proc.resident_bytes(server.pid) / MIB
            report["servers"][server.name] = {"start_up_s": start_up_s, "idle_rss_mib": idle_mib}
        begun_s, others_s = time.monotonic(), _others_cpu_s()
        for server in servers:  # connections, caches, first calls
            _load(server, replace(next(iter(scenarios.values())), connections=16))
        for key, scenario in scenarios.items():
            print(f"{key}: {scenario.title}", file=sys.stderr)
            report["scenarios"][key] = run_scenario(servers, upstream, scenario, rounds)
        others = (_others_cpu_s() - others_s) / (time.monotonic() - begun_s)
        report["machine"] = machine() | {"cores_that_others_used": round(others, 2)}
    return report | {"spans": spans.server}


def start_ups(folder: Path, upstream: Upstream, environment: Mapping[str, str], times: int) -> Iterator[float]:
    """Seconds from the command to the first answer of a chat, each time with an empty state directory."""
    for number in range(times):
        begun_s = time.monotonic()
        with run_headrace(_new(folder / f"start-{number}"), upstream.port, environment=environment) as server:
            ask(server)
            yield time.monotonic() - begun_s


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
        "commit": commit.stdout.strip() or None,
    }


def _others_cpu_s() -> float:
    return proc.machine_cpu_s() - proc.cpu_s(os.getpid())


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def main() -> int:
    """Runs, writes, prints; 1 where a request through ours failed."""
    known = [peer.name for peer in PEERS]
    parser = argparse.ArgumentParser(description="What headrace serve costs.")
    parser.add_argument("--scenarios", default="", help=f"some of {','.join(SCENARIOS)}")
    parser.add_argument("--peers", nargs="*", default=["nginx"], help=f"all, or some of {', '.join(known)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--classify", default="learned_length", help="how ours forecasts; by_length is the cheapest")
    parser.add_argument("--quick", action="store_true", help="a smoke run of a few seconds")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args()
    keys = options.scenarios.split(",") if options.scenarios else QUICK if options.quick else tuple(SCENARIOS)
    names = options.peers or known
    if unknown := [name for name in (*keys, *names) if name not in SCENARIOS and name not in known]:
        parser.error(f"there is no {unknown[0]}")
    scenarios = {key: replace(SCENARIOS[key], seconds=0.3) if options.quick else SCENARIOS[key] for key in keys}
    with tempfile.TemporaryDirectory() as folder:
        report = run(Path(folder), scenarios, names, 1 if options.quick else options.rounds, options.classify)
    text = json.dumps(report, indent=1, default=asdict)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(text)
    print(text if options.json else report_text(json.loads(text)))
    return int(any(one["servers"]["headrace"]["failed"] for one in report["scenarios"].values()))


if __name__ == "__main__":
    sys.exit(main())
