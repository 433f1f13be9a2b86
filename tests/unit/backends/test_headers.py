import pytest

from backends._headers import HeaderValue, check_headers, resolve_headers, variables
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
        check_headers(headers, api_key_env="")


@pytest.mark.parametrize(
    "key", ["sk-proj-Ab12", "gsk_Ab12Cd34Ef56", "0123456789abcdef", "fedcba9876543210", "fw_3ZaBc", "two words", "A-B"]
)
def test_a_key_in_the_place_of_a_variables_name_is_refused_and_not_repeated(key: str) -> None:
    """It would be looked for in the environment, and its name written to logs."""
    places: list[tuple[dict[str, HeaderValue], str, str]] = [
        ({}, key, "`api_key_env`"),
        ({"x-pool": {"env": key}}, "", "`env` of `x-pool`"),
    ]
    for headers, api_key_env, place in places:
        with pytest.raises(ValueError, match="should be the name of an environment variable") as caught:
            check_headers(headers, api_key_env=api_key_env)
        assert place in str(caught.value)
        assert key not in str(caught.value)


@pytest.mark.parametrize("name", ["GROQ_API_KEY", "KEY2", "_KEY", "team_a_key"])
def test_names_of_variables_are_taken(name: str) -> None:
    """Capitals as usual, or small letters with underscores; what they hold is what goes up."""
    check_headers({"x-pool": {"env": name}}, api_key_env=name)
    headers, secrets = resolve_headers({"x-pool": {"env": name}}, api_key_env=name, secret={name: "value"}.get)
    assert ("value", "Bearer value", {"value"}) == (headers["x-pool"], headers["authorization"], secrets)


def test_the_variables_are_those_that_are_read() -> None:
    """Each once, the key's last."""
    headers: dict[str, HeaderValue] = {"x-team": "search", "x-pool": {"env": "POOL"}}
    assert ("POOL", "KEY") == variables(headers, api_key_env="KEY")
    assert ("POOL",) == variables({**headers, "x-again": {"env": "POOL"}}, api_key_env="")
    assert () == variables({}, api_key_env="")
