"""Many requests, many of them abandoned: afterwards nothing may be left behind, and nothing may be missing.

    python tests/benchmarks/soak.py                     20,000 requests after 2,000 that fill caches, two minutes
    python tests/benchmarks/soak.py --requests 1000     a short one
    python tests/benchmarks/soak.py --requests 200000 --clients 96      a long one at twice the pace, nine minutes

Whole answers, streams, clients that hang up before the first byte and clients that hang up in the middle, all mixed,
through ``headrace serve`` to the upstream of ``upstream.c``, which takes its time. More clients than places, so that
the queue is in use and is left, too. Exits with 1 where a promise is broken. Writes ``tests/benchmarks/out/soak.json``.
"""

import argparse
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import proc
from collector import Collected, collect_spans
from figures import table
from programs import HERE, Upstream, get, load, run_upstream
from prometheus_client.parser import text_string_to_metric_families
from servers import API_KEY, KEY_HEADER, Server, run_headrace

OUT = HERE / "out" / "soak.json"
MIB = 1024 * 1024

CLIENTS_A_PLACE = 1.5
SEGMENTS = 10
"""After each there is a sample. One more goes before, in which caches fill and allocators find their size."""

MIX = "40,36,12,12"
"""Per cent of whole answers, streams, hang-ups before the first byte, hang-ups in the middle."""

GROWTH_MIB = {"the warm-up": 8.0, "the middle": 6.0}
"""What resident memory may grow from there to the end: it goes up and down by 4 MiB with what runs at the moment."""

MIDWAY_SHARE = 0.9
"""Of the streams that clients leave in the middle, so many at least must end early upstream too: not all, since the
rest of a stream may be under way already."""

LATER_DESCRIPTORS = 5
"""Opened with the first request or the first batch: the ledger's file twice, to write it and to see whether it is
still the same, its log and its index in WAL mode, a connection to the collector."""

_OUTCOMES = """
SELECT CASE WHEN status <> 'client_gone' THEN status
            WHEN attempts = 0 THEN 'client_gone in the queue'
            WHEN ttft_s IS NULL THEN 'client_gone before the first byte'
            ELSE 'client_gone in the middle' END AS how, count(*)
FROM requests GROUP BY how ORDER BY 2 DESC
"""

_QUIET_S = 10.0
_GAUGES = ("headrace_in_flight", "headrace_backend_in_flight", "headrace_queued")
_COUNTERS = ("headrace_requests_total", "headrace_attempts_total", "headrace_ledger_dropped_total")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The gateway at rest after so many requests."""

    requests: int
    rss_mib: float
    descriptors: int
    upstream_active: int
    upstream_open: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Something that must hold, and what was found."""

    name: str
    expected: str
    found: str
    kept: bool


def soak(requests: int, clients: int, folder: Path) -> tuple[list[Sample], list[Promise], dict[str, Any]]:
    """Runs it all: the samples on the way, the promises at the end, and what the clients saw."""
    places = int(clients / CLIENTS_A_PLACE)
    with ExitStack() as outer:
        endpoint, spans = outer.enter_context(collect_spans())
        upstream = outer.enter_context(run_upstream())
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        with run_headrace(folder, upstream.port, limit=places, queue=1024, environment=environment) as server:
            samples, reports, done = [at_rest(server, upstream, 0)], [], 0
            for segment in [requests // SEGMENTS] * (1 + SEGMENTS):
                reports.append(run_segment(server, segment, clients))
                done += segment
                samples.append(at_rest(server, upstream, done))
            metrics = scrape(server)
        seen = _sum(reports)
        promises = [
            *promises_of_clients(seen, done, upstream.stats()["left"]),
            *promises_of_memory(samples, places),
            *promises_of_rest(metrics, upstream),
            *promises_of_records(metrics, server.state / "ledger.sqlite3", spans, seen["sent"]),
        ]
    return samples, promises, seen


def run_segment(server: Server, requests: int, clients: int) -> dict[str, Any]:
    """Some of the requests, and the client's report of them."""
    # Slow enough that the gateway keeps up: else the upstream has said all before a client that leaves has seen half.
    mock = "chunks=16 delay_us=15000 first_us=40000"
    options = ["--connections", str(clients), "--requests", str(requests), "--mix", MIX, "--chunks", "16"]
    options += ["--mock", mock, "--early-ms", "120", "--prompt", "6000", "--prompts", "500", "--header", KEY_HEADER]
    return load(server.port, options, timeout_s=600)


def at_rest(server: Server, upstream: Upstream, requests: int) -> Sample:
    """Waits until the upstream has nothing more to do for us, and looks."""
    deadline_s = time.monotonic() + _QUIET_S
    while (stats := upstream.stats())["active"] and time.monotonic() < deadline_s:
        time.sleep(0.05)
    time.sleep(0.5)
    return Sample(
        requests=requests,
        rss_mib=proc.resident_bytes(server.pid) / MIB,
        descriptors=proc.descriptors(server.pid),
        upstream_active=stats["active"],
        upstream_open=stats["open"] - 1,  # ours, that asks
    )


def scrape(server: Server) -> dict[str, float]:
    """The gauges and counters that promise something, each summed over its labels."""
    status, body = get(server.port, "/metrics", {"authorization": f"Bearer {API_KEY}"})
    if status != 200:
        raise RuntimeError(f"/metrics answered {status}")
    sums: dict[str, float] = dict.fromkeys((*_GAUGES, *_COUNTERS), 0.0)
    for family in text_string_to_metric_families(body.decode()):
        for line in family.samples:
            if line.name in sums:
                sums[line.name] += line.value
    return sums


def promises_of_clients(seen: dict[str, Any], requests: int, stopped: int) -> Iterator[Promise]:
    """Every request went out, who stayed got a whole answer, and for who left the upstream was ``stopped``."""
    yield _equal("requests sent", requests, seen["sent"])
    yield _equal("answers that failed", 0, sum(seen["errors"].values()))
    least = int(seen["left_midway"] * MIDWAY_SHARE)
    yield Promise(
        name="answers that the upstream was spared", expected=f">= {least}", found=str(stopped), kept=stopped >= least
    )


def promises_of_memory(samples: list[Sample], places: int) -> Iterator[Promise]:
    """Memory and descriptors are flat; the first sample is of a gateway that did nothing yet."""
    warm, middle, last = samples[1], samples[1 + SEGMENTS // 2], samples[-1]
    for (since, allowed_mib), sample in zip(GROWTH_MIB.items(), (warm, middle), strict=True):
        grown_mib = last.rss_mib - sample.rss_mib
        yield Promise(
            name=f"growth of resident memory since {since}",
            expected=f"<= {allowed_mib:g} MiB",
            found=f"{grown_mib:.1f} MiB",
            kept=grown_mib <= allowed_mib,
        )
    # Idle connections to the upstream are kept, one a place at most.
    most = max(sample.descriptors - sample.upstream_open for sample in samples)
    allowed = samples[0].descriptors + LATER_DESCRIPTORS
    yield Promise(
        name="descriptors other than idle upstream connections",
        expected=f"<= {allowed}",
        found=str(most),
        kept=most <= allowed,
    )
    pooled = max(sample.upstream_open for sample in samples)
    yield Promise(name="connections in the pool", expected=f"<= {places}", found=str(pooled), kept=pooled <= places)


def promises_of_rest(metrics: dict[str, float], upstream: Upstream) -> Iterator[Promise]:
    """Nothing is under way any more; the gateway has ended when this is asked."""
    for name in _GAUGES:
        yield _equal(name, 0, int(metrics[name]))
    yield _equal("requests that the upstream still serves", 0, upstream.stats()["active"])
    yield _equal("connections that the gateway left open", 0, upstream.stats()["open"] - 1)


def promises_of_records(metrics: dict[str, float], ledger: Path, spans: Collected, sent: int) -> Iterator[Promise]:
    """Ledger, metrics and spans each tell of every request once."""
    with closing(sqlite3.connect(ledger)) as rows:
        requests = int(rows.execute("SELECT count(*) FROM requests").fetchone()[0])
        attempts = int(rows.execute("SELECT count(*) FROM attempts").fetchone()[0])
    yield _equal("rows of requests on the ledger", sent, requests)
    yield _equal("headrace_requests_total", sent, int(metrics["headrace_requests_total"]))
    yield _equal("SERVER spans", sent, spans.server)
    yield _equal("headrace_attempts_total", attempts, int(metrics["headrace_attempts_total"]))
    yield _equal("CLIENT spans", attempts, spans.client)
    yield _equal("headrace_ledger_dropped_total", 0, int(metrics["headrace_ledger_dropped_total"]))


def outcomes(ledger: Path) -> dict[str, int]:
    """How many requests ended in which way; of those whose client left, also when it did."""
    with closing(sqlite3.connect(ledger)) as rows:
        return dict(rows.execute(_OUTCOMES))


def _equal(name: str, expected: int, found: int) -> Promise:
    return Promise(name=name, expected=str(expected), found=str(found), kept=expected == found)


def _sum(reports: list[dict[str, Any]]) -> dict[str, Any]:
    counts = ("sent", "ok", "left_early", "left_midway", "chunks")
    total: dict[str, Any] = {name: sum(report[name] for report in reports) for name in counts}
    total["seconds"] = round(sum(report["seconds"] for report in reports), 1)
    total["errors"] = {name: sum(report["errors"][name] for report in reports) for name in reports[0]["errors"]}
    return total


def main() -> int:
    """Runs, writes, prints; 1 where a promise is broken."""
    parser = argparse.ArgumentParser(description="Many requests, many of them abandoned; nothing may be left behind.")
    parser.add_argument(
        "--requests", type=int, default=20_000, help="20000 take two minutes, 200000 with 96 clients nine"
    )
    parser.add_argument("--clients", type=int, default=48, help="at a time; there are places for two thirds of them")
    options = parser.parse_args()
    requests = options.requests // SEGMENTS * SEGMENTS  # as many in each segment
    with tempfile.TemporaryDirectory() as name:
        samples, promises, seen = soak(requests, options.clients, Path(name))
        ended = outcomes(Path(name) / "state" / "ledger.sqlite3")
        log = (Path(name) / "headrace.log").read_text()
    report = {"clients": seen, "outcomes": ended, "samples": samples, "promises": promises}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(report, indent=1, default=asdict))
    at = [samples[0], samples[1], samples[1 + SEGMENTS // 2], samples[-1]]
    rows = [[f"{one.requests:,}", f"{one.rss_mib:.1f}", str(one.descriptors), str(one.upstream_open)] for one in at]
    print(table(["after requests", "RSS, MiB", "descriptors", "idle upstream connections"], rows), end="\n\n")
    found = [[one.name, one.expected, one.found, "kept" if one.kept else "BROKEN"] for one in promises]
    print(table(["promise", "expected", "found", ""], found), end="\n\n")
    print(f"clients: {seen}\noutcomes: {ended}")
    broken = [one for one in promises if not one.kept]
    if broken:
        print(f"the gateway's last words:\n{log[-3000:]}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
