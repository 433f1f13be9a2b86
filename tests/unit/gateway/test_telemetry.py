import logging
import subprocess
import sys

import pytest

from gateway.errors import ConfigurationError
from gateway.telemetry import open_spans, tracing_wanted

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "edge"}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "True"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
    ],
)
def test_tracing_is_on_where_the_standard_variables_say_so(environment: dict[str, str], *, expected: bool) -> None:
    """An endpoint or an exporter switches it on, the standard switches switch it off, silence means off."""
    assert expected == tracing_wanted(environment)


def test_off_means_that_nothing_is_imported() -> None:
    """Without the variables, the SDK is not even loaded."""
    code = (
        "import sys; from gateway.telemetry import open_spans; assert open_spans({}) is None;"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == loaded.stdout.strip()


@pytest.mark.parametrize(
    "wish",
    [{"OTEL_TRACES_EXPORTER": "zipkin"}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}],
    ids=lambda wish: next(iter(wish)),
)
def test_wishes_we_cannot_grant_are_refused_by_name(wish: dict[str, str]) -> None:
    """An exporter or protocol that is not built in stops the start instead of exporting nowhere."""
    with pytest.raises(ConfigurationError, match=next(iter(wish))):
        open_spans({**ENDPOINT, **wish})


async def test_on_opens_a_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an endpoint there is a sink, which closes cleanly without a collector."""
    for name, value in ENDPOINT.items():
        monkeypatch.setenv(name, value)
    sink = open_spans(ENDPOINT)
    assert sink is not None
    await sink.close()


async def test_exporter_complains_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However often a sink is opened, the exporter's own complaints about a collector that is away make one line."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", ENDPOINT["OTEL_EXPORTER_OTLP_ENDPOINT"])
    logger = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    monkeypatch.setattr(logger, "filters", [])
    for _ in range(2):
        sink = open_spans(ENDPOINT)
        assert sink is not None
        await sink.close()
    for number in range(100):
        logger.warning("retry %d", number)
    assert ["retry 0"] == [record.message for record in caplog.records]
