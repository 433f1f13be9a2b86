import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.telemetry.log_text import Redactor, on_one_line

SECRET = 'gsk_"canary"/\\+ü 42'


@pytest.mark.parametrize(
    "spelling", [SECRET, quote(SECRET), quote(SECRET, safe=""), repr(SECRET), json.dumps(SECRET), f"x{SECRET}y"]
)
def test_hides_a_secret_however_it_is_written(spelling: str) -> None:
    """Plain, in a URL, in a repr, in JSON, in the middle of a word."""
    hidden = Redactor([SECRET])(f"upstream said {spelling} twice {spelling}")
    assert "canary" not in hidden
    assert 2 == hidden.count("[hidden]")


def test_hides_the_longer_of_two_secrets_whole() -> None:
    """One secret may begin like another; no tail of the longer one stays behind."""
    assert "[hidden] [hidden]" == Redactor(["abcd", "abcd-efgh"])("abcd-efgh abcd")


def test_very_short_secrets_do_not_eat_the_text() -> None:
    """A value of one letter, or none, is no secret that could be hidden."""
    assert "a cat sat" == Redactor(["", "a", "  "])("a cat sat")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("redis://:canary@cache:6379/0", "redis://[hidden]@cache:6379/0"),
        ("https://user:canary@host/x", "https://[hidden]@host/x"),
        ("GET /v1?key=canary&x=1", "GET /v1?key=[hidden]&x=1"),
        ("GET /v1?x=1&api_key=canary", "GET /v1?x=1&api_key=[hidden]"),
        ("authorization: Bearer canary-1234", "authorization: Bearer [hidden]"),
        ("(b'authorization', b'bearer canary.1234')", "(b'authorization', b'bearer [hidden]')"),
        ("Authorization: Basic Y2FuYXJ5OjE=", "Authorization: Basic [hidden]"),
        ("a basic information and a bearer token", "a basic information and a bearer token"),
        ("{'x-api-key': 'canary-12'}", "{'x-api-key': '[hidden]'}"),
        ("[(b'x-api-key', b'canary-12')]", "[(b'x-api-key', b'[hidden]')]"),
        ("http://host/path?x=a@b", "http://host/path?x=a@b"),
        ("max_tokens=5 and a monkey=7", "max_tokens=5 and a monkey=7"),
    ],
)
def test_hides_credentials_by_where_they_stand(text: str, expected: str) -> None:
    """Keys of clients are not known here; they are recognised in URLs, query fields and headers."""
    assert expected == Redactor([])(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[31mred\x00", r"\x1b[31mred\x00"),
        ("\x85\u2028\u202e", r"\x85\u2028\u202e"),
        ("\ud800", r"\ud800"),
        ("grüße 你好", "grüße 你好"),
    ],
)
def test_writes_control_characters_out(text: str, expected: str) -> None:
    """Line ends, terminal escapes, direction overrides and half characters are shown, everything else stays."""
    assert expected == on_one_line(text)


@given(st.text())
def test_any_text_is_one_line_that_can_be_written(text: str) -> None:
    """Whatever a value holds, it can neither start a second line nor break the encoder."""
    line = on_one_line(text)
    assert len(line.splitlines()) <= 1
    assert line == line.encode().decode()


@given(prefix=st.text(), suffix=st.text())
def test_a_known_secret_never_survives(prefix: str, suffix: str) -> None:
    """Whatever stands around it."""
    assert "canary-key-123" not in Redactor(["canary-key-123"])(f"{prefix}canary-key-123{suffix}")
