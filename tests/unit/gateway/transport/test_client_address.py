"""What a base URL says of an upstream, and what is none."""

import pytest

from gateway.errors import ConfigurationError
from gateway.transport.address import Address


@pytest.mark.parametrize(
    ("base_url", "host", "port", "tls", "authority", "path"),
    [
        ("https://api.example/v1", "api.example", 443, True, "api.example", "/v1"),
        ("http://api.example", "api.example", 80, False, "api.example", ""),
        ("http://api.example/", "api.example", 80, False, "api.example", ""),
        ("HTTPS://API.Example:443/a/b/", "api.example", 443, True, "api.example", "/a/b"),
        ("http://10.0.0.7:8000/v1", "10.0.0.7", 8000, False, "10.0.0.7:8000", "/v1"),
        ("http://[::1]:8000/v1", "::1", 8000, False, "[::1]:8000", "/v1"),
        ("https://[2001:db8::1]/v1", "2001:db8::1", 443, True, "[2001:db8::1]", "/v1"),
        ("http://my_pod.svc.:443/x%20y", "my_pod.svc.", 443, False, "my_pod.svc.:443", "/x%20y"),
    ],
)
def test_an_address(base_url: str, host: str, port: int, tls: bool, authority: str, path: str) -> None:
    """Host, port, whether by TLS, what ``Host`` says, and what stands before every path."""
    expected = Address(host=host, port=port, tls=tls, authority=authority, path=path)
    assert expected == Address.of(base_url)


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "api.example/v1",
        "ftp://api.example",
        "http://",
        "http:///v1",
        "http://:80/v1",
        "http://api.example:0",
        "http://api.example:99999",
        "http://api.example:x",
        "http://user:secret@api.example",
        "http://api.example/v1?key=secret",
        "http://api.example/v1#secret",
        "http://api.example/v1?",
        "http://a b.example",
        "http://api.example/v 1",
        "http://api.example/v1\r\nx: y",
        "http://api.example\n",
        "http://bücher.example",
        "http://a..example",
        "http://" + "a" * 64 + ".example",
        "http://[::1",
        "http://[fe80::1%25eth0]/",
        "http://a,b.example",
    ],
)
def test_what_is_no_address(base_url: str) -> None:
    """It is refused when the connections are made, and what may be a secret in it is not told."""
    with pytest.raises(ConfigurationError, match="base_url") as caught:
        Address.of(base_url)
    assert "secret" not in str(caught.value)
