import certifi
import pytest

from gateway.ports import Origin
from gateway.transport.tls_context import client_context


def _origin(*, verify: bool | str = True) -> Origin:
    return Origin(
        base_url="https://a.example",
        headers={},
        connect_timeout_s=1,
        keep_alive_s=1,
        max_connections=1,
        verify=verify,
    )


def test_who_needs_nothing_special_shares_what_was_read() -> None:
    """The platform's authorities are read once for all backends; who trusts others, or anybody, has settings alone."""
    first = client_context(_origin())
    assert first is client_context(_origin())
    assert first is not client_context(_origin(verify=False))
    assert first is not client_context(_origin(verify=certifi.where()))


def test_other_authorities_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the operator names another file of them."""
    before = client_context(_origin())
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    assert before is not client_context(_origin())
