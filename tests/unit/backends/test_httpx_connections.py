import socket
import ssl

import httpx
import pytest

from backends._httpx_connections import from_transport
from gateway.errors import UpstreamError, UpstreamTimeout, UpstreamUnreachable

KEY = "sk-canary-0123456789"


@pytest.mark.parametrize(
    ("foreign", "expected"),
    [
        (httpx.ConnectTimeout, UpstreamTimeout),
        (httpx.ReadTimeout, UpstreamTimeout),
        (httpx.WriteTimeout, UpstreamTimeout),
        (httpx.ConnectError, UpstreamUnreachable),
        (httpx.ReadError, UpstreamUnreachable),
        (httpx.WriteError, UpstreamUnreachable),
        (httpx.ProxyError, UpstreamUnreachable),
        (httpx.RemoteProtocolError, UpstreamUnreachable),
        (httpx.LocalProtocolError, UpstreamUnreachable),
        (httpx.UnsupportedProtocol, UpstreamUnreachable),
    ],
)
def test_each_transport_error_has_its_class(foreign: type[httpx.TransportError], expected: type[UpstreamError]) -> None:
    """A foreign error becomes one of ours by its type, and its text, which may name hosts, stays behind."""
    actual = from_transport(foreign(f"https://host.internal:8000 {KEY}"))
    assert expected is type(actual)
    assert "internal" not in actual.message
    assert KEY not in actual.message


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "its name does not resolve"),
        (ssl.SSLCertVerificationError(1, "self-signed"), "its certificate is not trusted"),
        (ssl.SSLError(1, "wrong version"), "TLS failed"),
        (ConnectionRefusedError(111, "('10.0.0.1', 8000)"), "connection refused"),
        (OSError("All connection attempts failed"), "network error"),
    ],
)
def test_the_most_telling_cause_is_named(cause: Exception, words: str) -> None:
    """An operator reads why there is no connection, by the type of the deepest known cause."""
    error = httpx.ConnectError("x")
    error.__cause__ = OSError("outer")
    error.__cause__.__cause__ = cause
    assert f"no connection to the upstream: {words}" == from_transport(error).message
