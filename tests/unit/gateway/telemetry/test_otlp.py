from collections.abc import Mapping

import pytest

from gateway.errors import ConfigurationError
from gateway.telemetry.otlp import Destination, read_destination

ENDPOINT, TRACES = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


def _read(environment: Mapping[str, str]) -> Destination:
    return read_destination(environment, behind_proxy=lambda url: "example" in url)


@pytest.mark.parametrize(
    ("environment", "url", "behind_proxy"),
    [
        ({}, "http://localhost:4318/v1/traces", False),
        ({ENDPOINT: "https://collector.example/otlp/"}, "https://collector.example/otlp/v1/traces", True),
        ({ENDPOINT: "http://all:4318", TRACES: "http://traces:4318/here"}, "http://traces:4318/here", False),
        ({ENDPOINT: "http://all:4318", TRACES: " "}, "http://all:4318/v1/traces", False),
    ],
)
def test_the_address_is_the_specifications(environment: Mapping[str, str], url: str, *, behind_proxy: bool) -> None:
    """One for all signals has the path of traces added, one for traces is taken as it is; a proxy is asked about it."""
    found = _read(environment)
    assert (url, behind_proxy) == (found.url, found.behind_proxy)


def test_what_is_said_of_traces_goes_first() -> None:
    """All other variables are taken as they stand, or as they stand for traces."""
    for_all = {
        "HEADERS": "x-team=search,authorization=Bearer%20abc",
        "TIMEOUT": "3",
        "COMPRESSION": "Deflate",
        "CERTIFICATE": "/ca.pem",
        "CLIENT_CERTIFICATE": "/client.pem",
        "CLIENT_KEY": "/client.key",
    }
    environment = {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in for_all.items()}
    expected = Destination(
        url="http://localhost:4318/v1/traces",
        headers={"x-team": "search", "authorization": "Bearer abc"},
        timeout_s=3.0,
        compression="deflate",
        certificate="/ca.pem",
        client_certificate="/client.pem",
        client_key="/client.key",
        behind_proxy=False,
    )
    assert expected == _read(environment)
    of_traces = {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "0.5", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "gzip"}
    found = _read({**environment, **of_traces})
    assert (0.5, "gzip", "/ca.pem") == (found.timeout_s, found.compression, found.certificate)


def test_silence_is_the_specifications_default() -> None:
    """Ten seconds, nothing pressed, no headers, and certificates as everybody's."""
    found = _read({})
    assert (10.0, "none", {}) == (found.timeout_s, found.compression, found.headers)
    assert ("", "", "") == (found.certificate, found.client_certificate, found.client_key)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "inf"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "brotli"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(name: str, value: str) -> None:
    """The variable that is wrong is named, at the start."""
    with pytest.raises(ConfigurationError, match=value) as caught:
        _read({name: value})
    assert name == caught.value.where
