import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.ledger.entry_sink import take_each
from gateway.ledger.ledger import EntryLedger
from gateway.stores.sql import SqlLedger
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.label_names import LabelNames
from gateway.telemetry.live_gauges import Live
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.span_records import SpanLimit
from gateway.telemetry.span_settings import Batching
from gateway.telemetry.spans import SpanSink
from gateway.types import LedgerEntry


@pytest.fixture
def batch(make_entry: Callable[..., LedgerEntry]) -> list[LedgerEntry]:
    """Three entries, the second of which ends at a time that no clock shows."""
    return [make_entry(1), make_entry(2, ended_s=10**400), make_entry(3)]


def _take(sink: Any, batch: list[LedgerEntry], caplog: pytest.LogCaptureFixture) -> int:
    """Hands the batch over, as the ledger does; how many it counts as lost."""
    ledger = EntryLedger([], [sink])
    for entry in batch:
        ledger.record(entry)
    ledger.flush()
    assert f"sink {type(sink).__name__} failed with OverflowError" in caplog.text
    return ledger.dropped


def test_every_entry_has_its_turn(batch: list[LedgerEntry]) -> None:
    """What goes wrong is raised at the end, once for each."""
    seen: list[str] = []

    def take(entry: LedgerEntry) -> None:
        seen.append(entry.arrival.id)
        if entry.arrival.id != "req-2":
            raise ValueError(entry.arrival.id)

    with pytest.raises(ExceptionGroup) as caught:
        take_each(batch, take)
    assert ["req-1", "req-2", "req-3"] == seen
    assert ["req-1", "req-3"] == [str(error) for error in caught.value.exceptions]


def test_metrics_count_what_can_be_counted(batch: list[LedgerEntry], caplog: pytest.LogCaptureFixture) -> None:
    """One absurd entry does not cost the tokens of the others."""
    metrics = Metrics(LabelNames(routes=frozenset({"default"}), models={"groq": frozenset({"llama"})}), Live())
    assert 1 == _take(metrics, batch, caplog)
    assert b'headrace_attempts_total{backend="groq",model="llama",status="ok"} 2.0' in metrics.render("")[0]


def test_the_access_log_has_the_other_lines(batch: list[LedgerEntry], caplog: pytest.LogCaptureFixture) -> None:
    """One for each that can be written."""
    with caplog.at_level(logging.INFO, "headrace.access"):
        assert 1 == _take(AccessLog(), batch, caplog)
    lines = [record.message for record in caplog.records if record.name == "headrace.access"]
    assert ["request=req-1", "request=req-3"] == [line.split()[0] for line in lines]


class _Kept:
    """An exporter that keeps what it gets."""

    def __init__(self) -> None:
        self.spans: list[bytes] = []

    def export(self, batch: list[bytes], /) -> None:
        self.spans += batch

    def shutdown(self) -> None:
        """There is nothing to give up."""


async def test_the_other_spans_are_exported(batch: list[LedgerEntry], caplog: pytest.LogCaptureFixture) -> None:
    """All of a request's, or none."""
    exporter = _Kept()
    sink = SpanSink(exporter, batching=Batching(), limit=SpanLimit())
    assert 1 == _take(sink, batch, caplog)
    await sink.close()
    assert 4 == len(exporter.spans)


async def test_the_other_rows_are_kept(
    batch: list[LedgerEntry], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In their order."""
    ledger = SqlLedger(tmp_path / "ledger.db")
    ledger.start()
    assert 1 == _take(ledger, batch, caplog)
    await ledger.close()
    assert [1, 0, 1] == [len(await ledger.find(f"req-{number}")) for number in (1, 2, 3)]
