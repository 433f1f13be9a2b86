"""The overhead report as Markdown: against the goals, beside nginx, and beside all that ran.

python tests/benchmarks/overhead_report.py      of the last run, from tests/benchmarks/out/overhead.json
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from figures import Figure, figure, short, table
from programs import HERE

MIB = 1024 * 1024
REPORT = HERE / "out" / "overhead.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure of ours shall be at most, or ``at_least``. It is divided by ``per`` to come out in ``unit``."""

    name: str
    scenario: str
    field: str
    limit: float
    unit: str = "us"
    per: float = 1
    at_least: bool = False

    def row(self, report: Mapping[str, Any]) -> list[str]:
        """Name, limit, what was measured, and by how much it is missed."""
        measured = self._measured(report)
        missed = self.limit / measured.median if self.at_least else measured.median / self.limit
        sign = ">=" if self.at_least else "<="
        verdict = "met" if missed <= 1 else f"missed by {100 * (missed - 1):.0f} %"
        return [self.name, f"{sign} {self.limit:,g} {self.unit}", f"{measured} {self.unit}", verdict]

    def _measured(self, report: Mapping[str, Any]) -> Figure:
        ours = report["scenarios"][self.scenario]["servers"]["headrace"] if self.scenario else _ours(report)
        raw = _figure(ours[self.field])
        return Figure(raw.median / self.per, raw.low / self.per, raw.high / self.per, raw.rounds)


GOALS = (
    Goal(name="a16, CPU a request", scenario="a16", field="cpu_us_per_request", limit=125),
    Goal(name="a16, times nginx' CPU", scenario="a16", field="cpu_ratio_to_nginx", limit=3.5, unit="x"),
    Goal(name="b16, CPU a request", scenario="b16", field="cpu_us_per_request", limit=200),
    Goal(name="c16, CPU a chunk", scenario="c16", field="cpu_us_per_chunk", limit=10),
    Goal(name="e200, CPU a chunk", scenario="e200", field="cpu_us_per_chunk", limit=60),
    Goal(name="e200, added transit", scenario="e200", field="added_transit_p50_us", limit=0.5, unit="ms", per=1000),
    Goal(name="a1, added p50", scenario="a1", field="added_p50_us", limit=0.18, unit="ms", per=1000),
    Goal(name="a64, requests/s", scenario="a64", field="requests_per_s", limit=6000, unit="/s", at_least=True),
    Goal(name="resident under load", scenario="", field="rss_mib", limit=80, unit="MiB"),
    Goal(name="start to first answer", scenario="", field="start_up_s", limit=1, unit="s"),
)

_CPU_COLUMNS = {
    **dict.fromkeys(("a1", "a16", "a64", "b16"), "cpu_us_per_request"),
    **dict.fromkeys(("c16", "d200", "e200"), "cpu_us_per_chunk"),
}


def report_text(report: Mapping[str, Any]) -> str:
    """All of it."""
    parts = [goals_table(report), own_table(report), cpu_table(report), latency_table(report)]
    notes = [f"{name} is absent: {reason}" for name, reason in report["absent"].items()]
    where = ", ".join(f"{name} {value}" for name, value in report["machine"].items())
    return "\n\n".join([*parts, "\n".join([*notes, f"spans: {report['spans']}", where])])


def goals_table(report: Mapping[str, Any]) -> str:
    """Goal by goal, those that this run measured."""
    run = report["scenarios"]
    rows = [goal.row(report) for goal in GOALS if not goal.scenario or run.get(goal.scenario, {}).get("servers")]
    return table(["goal", "limit", "measured", ""], rows)


def own_table(report: Mapping[str, Any]) -> str:
    """Ours alone, with the spread over the rounds."""
    rows = []
    for key, scenario in report["scenarios"].items():
        ours = scenario["servers"]["headrace"]
        fields = ("cpu_us_per_request", "cpu_us_per_chunk", "cpu_ratio_to_nginx", "requests_per_s")
        rows.append([f"{key}: {scenario['title']}", *(_text(ours.get(field)) for field in fields)])
    return table(["scenario", "CPU us/request", "us/chunk", "times nginx", "requests/s"], rows)


def cpu_table(report: Mapping[str, Any]) -> str:
    """Everybody's CPU time in every scenario."""
    columns = [key for key in _CPU_COLUMNS if key in report["scenarios"]]
    rows = [
        [name, *(_short(report["scenarios"][key]["servers"][name][_CPU_COLUMNS[key]]) for key in columns)]
        for name in report["servers"]
    ]
    per = [f"{key}, us/{'chunk' if _CPU_COLUMNS[key].endswith('chunk') else 'request'}" for key in columns]
    return table(["gateway", *per], rows)


def latency_table(report: Mapping[str, Any]) -> str:
    """Everybody's added latency, throughput, memory and start."""
    header = [
        "gateway",
        "a1: added p50, ms",
        "added p99, ms",
        "e200: added transit p50, ms",
        "p99, ms",
        "first chunk, ms",
    ]
    header += ["a64: requests/s", "idle RSS, MiB", "loaded", "start, s", "failed of requests"]
    return table(header, (list(_latency_row(report, name)) for name in report["servers"]))


def _latency_row(report: Mapping[str, Any], name: str) -> Iterator[str]:
    yield name
    for key, field in (
        ("a1", "added_p50_us"),
        ("a1", "added_p99_us"),
        ("e200", "added_transit_p50_us"),
        ("e200", "added_transit_p99_us"),
        ("e200", "added_first_chunk_p50_us"),
    ):
        yield _short(_of(report, key, name, field), per=1000)
    yield _short(_of(report, "a64", name, "requests_per_s"))
    yield short(report["servers"][name]["idle_rss_mib"])
    ran = [scenario["servers"][name] for scenario in report["scenarios"].values()]
    yield short(max(one["rss_mib"] for one in ran))
    yield _short(report["servers"][name]["start_up_s"])
    yield f"{sum(one['failed'] for one in ran):,} of {sum(one['requests'] for one in ran):,}"


def _ours(report: Mapping[str, Any]) -> dict[str, Any]:
    peak = max(scenario["servers"]["headrace"]["rss_mib"] for scenario in report["scenarios"].values())
    return {**report["servers"]["headrace"], "rss_mib": asdict(figure([peak]))}


def _of(report: Mapping[str, Any], key: str, name: str, field: str) -> Mapping[str, Any] | None:
    scenario = report["scenarios"].get(key)
    return scenario["servers"][name][field] if scenario else None


def _figure(of: Mapping[str, Any]) -> Figure:
    return Figure(**of)


def _text(of: Mapping[str, Any] | None) -> str:
    return str(_figure(of)) if of else ""


def _short(of: Mapping[str, Any] | None, per: float = 1) -> str:
    return short(of["median"] / per) if of else ""


if __name__ == "__main__":
    print(report_text(json.loads(REPORT.read_text())))
    sys.exit()
