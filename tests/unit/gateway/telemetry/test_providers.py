import logging
import subprocess
import sys

import pytest

from gateway.errors import ConfigurationError
from gateway.telemetry.providers import open_spans, read_sampling, tracing_wanted
from gateway.trace_context import Sampling

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


def _no_proxy(_: str) -> bool:
    return False


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
        "import sys; from gateway.telemetry.providers import open_spans;"
        "assert open_spans({}, behind_proxy=bool) is None;"
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
        open_spans({**ENDPOINT, **wish}, behind_proxy=_no_proxy)


async def test_on_opens_a_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an endpoint there is a sink, which closes cleanly without a collector."""
    for name, value in ENDPOINT.items():
        monkeypatch.setenv(name, value)
    sink = open_spans(ENDPOINT, behind_proxy=_no_proxy)
    assert sink is not None
    await sink.close()


async def test_exporter_complains_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However often a sink is opened, the exporter's own complaints about a collector that is away make one line."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", ENDPOINT["OTEL_EXPORTER_OTLP_ENDPOINT"])
    logger = logging.getLogger("gateway.telemetry.record_exporter.tries")
    monkeypatch.setattr(logger, "filters", [])
    for _ in range(2):
        sink = open_spans(ENDPOINT, behind_proxy=_no_proxy)
        assert sink is not None
        await sink.close()
    for number in range(100):
        logger.warning("retry %d", number)
    assert ["retry 0"] == [record.message for record in caplog.records]


@pytest.mark.parametrize(
    ("sampler", "argument", "expected"),
    [
        ("", "", Sampling()),
        ("parentbased_always_on", "", Sampling()),
        ("always_on", "0.5", Sampling(parent_decides=False)),
        ("always_off", "", Sampling(ratio=0.0, parent_decides=False)),
        ("parentbased_always_off", "", Sampling(ratio=0.0)),
        ("parentbased_traceidratio", "0.1", Sampling(ratio=0.1)),
        ("traceidratio", " 1 ", Sampling(parent_decides=False)),
        ("traceidratio", "", Sampling(parent_decides=False)),
    ],
)
def test_the_standard_samplers_are_known(sampler: str, argument: str, expected: Sampling) -> None:
    """With the specification's defaults; an argument means something to the ratio alone."""
    environment = {"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument}
    assert expected == read_sampling(environment)


@pytest.mark.parametrize(
    ("environment", "where"),
    [
        ({"OTEL_TRACES_SAMPLER": "jaeger_remote"}, "OTEL_TRACES_SAMPLER"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1.5"}, "OTEL_TRACES_SAMPLER_ARG"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "nan"}, "OTEL_TRACES_SAMPLER_ARG"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "ten"}, "OTEL_TRACES_SAMPLER_ARG"),
    ],
)
def test_another_sampler_is_refused_at_the_start(environment: dict[str, str], where: str) -> None:
    """A typo that traced everything, or nothing, would be found out much later."""
    with pytest.raises(ConfigurationError) as refused:
        read_sampling(environment)
    assert where == refused.value.where
