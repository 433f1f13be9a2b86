import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gateway.telemetry import sibling_metrics
from gateway.telemetry.label_names import LabelNames
from gateway.telemetry.live_gauges import BackendState, Live
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.sibling_metrics import SiblingMetrics
from gateway.types import LedgerEntry, Outcome, Status

MakeEntry = Callable[..., LedgerEntry]
NAMES = LabelNames(routes=frozenset({"default"}), models={"groq": frozenset({"llama"})})


def _live(
    *, in_flight: int = 0, up: bool = False, dropped: int = 0, failures: int = 0, limit: int | None = None
) -> Live:
    return Live(
        in_flight=lambda: in_flight,
        queued=lambda: 2 * in_flight,
        spooled=lambda: 3 * in_flight,
        backends=lambda: (BackendState(name="groq", up=up, in_flight=in_flight, limit=limit),),
        dropped=lambda: {"rows": dropped},
        observer_failures=lambda: failures,
    )


def _worker(folder: Path, number: int, live: Live | None = None) -> tuple[Metrics, SiblingMetrics]:
    live = live or _live()
    metrics = Metrics(NAMES, live)
    return metrics, SiblingMetrics(metrics, live, run_dir=folder, worker=number)


def _samples(exposition: tuple[bytes, str]) -> dict[str, float]:
    return {
        f"{sample.name}{{{','.join(f'{key}={value}' for key, value in sorted(sample.labels.items()))}}}": sample.value
        for family in parse_text(exposition[0].decode())
        for sample in family.samples
    }


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def ended_pid() -> int:
    """The id of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def _entries(make_entry: MakeEntry) -> list[LedgerEntry]:
    good = [make_entry(number) for number in range(5)]
    return [*good, make_entry(9, outcome=Outcome(status=Status.CLIENT_GONE, http_status=499))]


@pytest.mark.parametrize("cut", range(7))
async def test_two_workers_say_what_one_would(tmp_path: Path, make_entry: MakeEntry, cut: int) -> None:
    """However the entries fall to them: every counter and every bucket of the sum is that of a single process."""
    entries = _entries(make_entry)
    alone = Metrics(NAMES, _live())
    alone.take(entries)
    (first, its_siblings), (second, whose_siblings) = _worker(tmp_path, 0), _worker(tmp_path, 1)
    first.take(entries[:cut])
    second.take(entries[cut:])
    await asyncio.gather(its_siblings._publish(), whose_siblings._publish())
    expected = _samples(alone.render(""))
    assert pytest.approx(expected) == _samples(its_siblings.render(""))
    assert pytest.approx(expected) == _samples(whose_siblings.render(""))


async def test_the_one_that_is_asked_is_exact(tmp_path: Path, make_entry: MakeEntry) -> None:
    """Its own numbers are those of now, whatever it has published; and asking changes nothing."""
    metrics, siblings = _worker(tmp_path, 0)
    await siblings._publish()
    metrics.take(_entries(make_entry))
    for _ in range(2):
        assert 5 == _samples(siblings.render(""))["headrace_requests_total{operation=chat,route=default,status=ok}"]


async def test_the_present_is_added_up(tmp_path: Path) -> None:
    """What runs is the sum; a backend is up if any worker can use it; what was lost anywhere is lost."""
    _, first = _worker(tmp_path, 0, _live(in_flight=2, up=False, dropped=1, failures=3, limit=8))
    _, second = _worker(tmp_path, 1, _live(in_flight=3, up=True, dropped=4, failures=5, limit=5))
    await second._publish()
    samples = _samples(first.render(""))
    expected = {
        "headrace_in_flight{}": 5,
        "headrace_queued{}": 10,
        "headrace_ledger_spooled{}": 15,
        "headrace_backend_up{backend=groq}": 1,
        "headrace_backend_in_flight{backend=groq}": 5,
        "headrace_backend_found_concurrency{backend=groq}": 13,
        "headrace_ledger_dropped_total{sink=rows}": 5,
        "headrace_observer_failures_total{}": 8,
    }
    assert expected == {name: samples[name] for name in expected}


async def test_of_the_dead_only_what_they_counted_remains(
    tmp_path: Path, make_entry: MakeEntry, ended_pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing runs any more in a worker that was killed; what it had served was served."""
    metrics, dead = _worker(tmp_path, 1, _live(in_flight=7, up=True, dropped=2))
    metrics.take(_entries(make_entry))
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: ended_pid)
        await dead._publish()
    samples = _samples(_worker(tmp_path, 0)[1].render(""))
    assert (0, 0, 2, 5) == (
        samples["headrace_in_flight{}"],
        samples["headrace_backend_up{backend=groq}"],
        samples["headrace_ledger_dropped_total{sink=rows}"],
        samples["headrace_requests_total{operation=chat,route=default,status=ok}"],
    )


async def test_who_takes_a_place_goes_on_from_there(tmp_path: Path, make_entry: MakeEntry) -> None:
    """Three lives of one worker count as one, and there is one file; gauges begin anew."""
    for _ in range(3):
        metrics, siblings = _worker(tmp_path, 0, _live(in_flight=1, dropped=2))
        siblings.start()
        metrics.take(_entries(make_entry))
        await siblings.close()
    samples = _samples(_worker(tmp_path, 1)[1].render(""))
    assert (15, 6, 1) == (
        samples["headrace_requests_total{operation=chat,route=default,status=ok}"],
        samples["headrace_ledger_dropped_total{sink=rows}"],
        samples["headrace_in_flight{}"],
    )
    assert ["metrics-0.msgpack"] == _files(tmp_path)


async def test_nothing_is_written_where_nothing_has_changed(tmp_path: Path, make_entry: MakeEntry) -> None:
    """An idle worker leaves the disk alone."""
    metrics, siblings = _worker(tmp_path, 0)
    await siblings._publish()
    (file,) = _files(tmp_path)
    (tmp_path / file).unlink()
    await siblings._publish()
    assert [] == _files(tmp_path)
    metrics.take(_entries(make_entry))
    await siblings._publish()
    assert [file] == _files(tmp_path)


async def test_a_disk_that_takes_nothing_is_told_and_tried_again(
    tmp_path: Path, make_entry: MakeEntry, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker serves on, and its numbers are published as soon as they can be."""
    folder = tmp_path / "none-yet"
    metrics, siblings = _worker(folder, 0)
    metrics.take(_entries(make_entry))
    await siblings._publish()
    assert "cannot be told" in caplog.text
    folder.mkdir()
    await siblings._publish()
    assert sibling_metrics._read(folder / "metrics-0.msgpack") is not None
