from collections.abc import Mapping
from pathlib import Path

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


def test_what_is_said_of_traces_goes_first(tmp_path: Path) -> None:
    """All other variables are taken as they stand, or as they stand for traces."""
    files = {name: tmp_path / f"{name}.pem" for name in ("ca", "client", "key")}
    for file in files.values():
        file.touch()
    for_all = {
        "HEADERS": "x-team=search,authorization=Bearer%20abc",
        "TIMEOUT": "3",
        "COMPRESSION": "Deflate",
        "CERTIFICATE": str(files["ca"]),
        "CLIENT_CERTIFICATE": str(files["client"]),
        "CLIENT_KEY": str(files["key"]),
    }
    environment = {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in for_all.items()}
    expected = Destination(
        url="http://localhost:4318/v1/traces",
        headers={"x-team": "search", "authorization": "Bearer abc"},
        timeout_s=3.0,
        compression="deflate",
        certificate=str(files["ca"]),
        client_certificate=str(files["client"]),
        client_key=str(files["key"]),
        behind_proxy=False,
    )
    assert expected == _read(environment)
    of_traces = {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "0.5", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "gzip"}
    found = _read({**environment, **of_traces})
    assert (0.5, "gzip", str(files["ca"])) == (found.timeout_s, found.compression, found.certificate)


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
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/is/not/here.pem"),
        ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "/is/not/here.pem"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/is/not/here.key"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(name: str, value: str) -> None:
    """The variable that is wrong is named, at the start."""
    with pytest.raises(ConfigurationError, match=value) as caught:
        _read({name: value})
    assert name == caught.value.where


@pytest.mark.parametrize("protocol", ["", " ", "http/protobuf"])
def test_a_protocol_that_says_nothing_is_ours(protocol: str) -> None:
    """An empty variable is as good as none; what traces say holds before what all signals say."""
    everybody = "OTEL_EXPORTER_OTLP_PROTOCOL"
    assert _read({}) == _read({everybody: protocol})
    assert _read({}) == _read({everybody: "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"})


@pytest.mark.parametrize(("text", "timeout_s"), [("10", 10.0), ("999", 999.0), ("1000", 1.0), ("10000", 10.0)])
def test_a_long_patience_is_in_milliseconds(text: str, timeout_s: float) -> None:
    """Python's SDK has seconds where others have milliseconds; nobody waits a quarter of an hour for a collector."""
    assert timeout_s == _read({"OTEL_EXPORTER_OTLP_TIMEOUT": text}).timeout_s


@pytest.mark.parametrize(
    "address",
    ["localhost:4318", "collector", "ftp://collector", "http://:4318", "http://collector:much", "http://[::1"],
)
@pytest.mark.parametrize("name", [ENDPOINT, TRACES])
def test_what_is_no_address_is_refused_at_the_start(name: str, address: str) -> None:
    """Every span would be lost, which somebody would find out much later; it may hold a password, and is not told."""
    with pytest.raises(ConfigurationError) as caught:
        _read({name: address})
    assert (name, False) == (caught.value.where, address in str(caught.value))


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("", {}),
        (" X-Team = search ,,", {"x-team": "search"}),
        ("authorization=Bearer abc", {"authorization": "Bearer abc"}),
        ("authorization=Basic%20YTpi==,x-empty=", {"authorization": "Basic YTpi==", "x-empty": ""}),
    ],
)
def test_headers_are_pairs(text: str, headers: Mapping[str, str]) -> None:
    """They may be encoded as in addresses, and need not be."""
    assert headers == _read({"OTEL_EXPORTER_OTLP_HEADERS": text}).headers


@pytest.mark.parametrize(
    "text", ["x-key: s3cret", "s3cret", "=s3cret", "x key=s3cret", "x-key=s3cret%0d%0aa", "x-key=s3cr\u00e9t,s3cret"]
)
def test_what_is_no_header_is_refused_and_not_told(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """Who writes a colon for an equals sign has written a key there all the same."""
    name = "OTEL_EXPORTER_OTLP_HEADERS"
    with pytest.raises(ConfigurationError) as caught:
        _read({name: text})
    assert (name, False, "") == (caught.value.where, "s3c" in str(caught.value), caplog.text)
