"""What a client says in passing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.request_hints import read_hints, session_hint


def _hints(headers: list[tuple[bytes, bytes]]) -> tuple[str, float | None]:
    """The conversation and the deadline that the headers name."""
    hints = read_hints(headers)
    return hints.session, hints.deadline_s


@pytest.mark.parametrize("name", [b"x-claude-code-session-id", b"session-id", b"x-session-affinity"])
def test_a_session_is_named_by_a_header(name: bytes) -> None:
    """The first of several, without spaces around it."""
    assert ("abc", None) == _hints([(b"host", b"x"), (name, b" abc "), (b"session-id", b"later")])


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"1500", 1.5),
        (b" 20 ", 0.02),
        (b"0", None),
        (b"-5", None),
        (b"1e3", None),
        (b"1.5", None),
        (b"", None),
        (b"9" * 400, None),
        (b"86400001", None),
        ("²".encode("latin-1"), None),
    ],
)
def test_a_deadline_is_a_whole_number_of_milliseconds_within_a_day(value: bytes, seconds: float | None) -> None:
    """What is none is no hint, and never an error."""
    assert ("", seconds) == _hints([(b"x-headrace-deadline-ms", value)])


def test_a_name_that_is_too_long_is_none() -> None:
    """Names take memory."""
    assert ("", None) == _hints([(b"session-id", b"x" * 257)])


@given(st.lists(st.tuples(st.sampled_from([b"session-id", b"x-headrace-deadline-ms", b"x"]), st.binary()), max_size=5))
def test_no_header_is_an_error(headers: list[tuple[bytes, bytes]]) -> None:
    """Whatever bytes a client sends."""
    session, deadline_s = _hints(headers)
    assert len(session) <= 256
    assert deadline_s is None or 0 < deadline_s <= 86_400


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"session": "s", "raw": {"prompt_cache_key": b'"k"'}}, "s"),
        ({"raw": {"prompt_cache_key": b'"k"', "previous_response_id": b'"r"'}}, 'prompt_cache_key"k"'),
        ({"raw": {"prompt_cache_key": b"null", "previous_response_id": b'"r"'}}, 'previous_response_id"r"'),
        ({"raw": {"prompt_cache_key": b'"' + b"k" * 300 + b'"'}}, ""),
        ({}, ""),
    ],
)
def test_a_header_goes_before_the_body_and_the_nearer_field_before_the_farther(
    make_request: Any, fields: dict[str, Any], hint: str
) -> None:
    """One name at most."""
    assert hint == session_hint(make_request("hi", **fields))
