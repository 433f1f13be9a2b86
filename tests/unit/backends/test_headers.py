import pytest

from backends._headers import check_headers, resolve_headers
from gateway.errors import ConfigurationError

SECRETS = {"KEY": "sk-1\n", "POOL": "p-2", "BAD": "a\r\nx: y", "UNICODE": "schlüssel"}


def test_the_key_and_the_secrets_among_the_headers() -> None:
    """The key becomes the authorization header, values come out of the environment, and all secrets are known."""
    headers, secrets = resolve_headers(
        {"X-Team": "search", "x-pool": {"env": "POOL"}}, api_key_env="KEY", secret=SECRETS.get
    )
    assert {"x-team": "search", "x-pool": "p-2", "authorization": "Bearer sk-1"} == headers
    assert {"sk-1", "p-2"} == secrets


def test_no_key_no_authorization() -> None:
    """A server of one's own that needs no key is sent none."""
    assert ({}, frozenset()) == resolve_headers({}, api_key_env="", secret=SECRETS.get)


def test_a_variable_that_is_not_set() -> None:
    """A missing key is told when the gateway starts, by the name of its variable."""
    with pytest.raises(ConfigurationError, match="MISSING is not set"):
        resolve_headers({}, api_key_env="MISSING", secret=SECRETS.get)


@pytest.mark.parametrize("name", ["BAD", "UNICODE"])
def test_a_secret_that_no_header_can_carry(name: str) -> None:
    """A secret with line breaks or letters beyond ASCII is refused without telling it."""
    with pytest.raises(ConfigurationError) as caught:
        resolve_headers({"x-a": {"env": name}}, api_key_env="", secret=SECRETS.get)
    assert SECRETS[name] not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"a b": "c"}, "is no header name"),
        ({"": "c"}, "is no header name"),
        ({"a\r\nb": "c"}, "is no header name"),
        ({"a": "b\r\nc: d"}, "characters that no header may have"),
        ({"a": "chinesisch 中"}, "characters that no header may have"),
        ({"Host": "elsewhere"}, "written by the gateway itself"),
        ({"Content-Length": "1"}, "written by the gateway itself"),
        ({"Transfer-Encoding": "chunked"}, "written by the gateway itself"),
        ({"Connection": "authorization"}, "written by the gateway itself"),
    ],
)
def test_headers_that_are_refused(headers: dict[str, str], words: str) -> None:
    """What is no header, or would break framing, is refused when the file is read."""
    with pytest.raises(ValueError, match=words):
        check_headers(headers)
