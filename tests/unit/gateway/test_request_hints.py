"""What a client says in passing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.request_hints import Hints, read_hints, session_hint


def _hints(headers: list[tuple[bytes, bytes]]) -> tuple[str, float | None]:
    """The conversation and the deadline that the headers name."""
    hints = read_hints(headers)
    return hints.session, hints.deadline_s


@pytest.mark.parametrize("name", [b"x-claude-code-session-id", b"session-id", b"x-session-affinity"])
def test_a_session_is_named_by_a_header(name: bytes) -> None:
    """The first of several, without spaces around it."""
    assert ("abc", None) == _hints([(b"host", b"x"), (name, b" abc "), (b"session-id", b"later")])


@pytest.mark.parametrize(("value", "seconds"), [(b"1500", 1.5), (b" 20 ", 0.02), (b"86400000", 86_400.0)])
def test_a_deadline_is_a_whole_number_of_milliseconds_within_a_day(value: bytes, seconds: float) -> None:
    """Spaces around it do no harm."""
    assert Hints(deadline_s=seconds) == read_hints([(b"x-headrace-deadline-ms", value)])


@pytest.mark.parametrize(
    "value", [b"0", b"-5", b"1e3", b"1.5", b"", b"soon", b"9" * 400, b"86400001", "²".encode("latin-1")]
)
def test_a_deadline_that_is_none_is_refused_by_name(value: bytes) -> None:
    """Whoever sets one counts on it; the words name the header and never quote what was sent."""
    fault = read_hints([(b"session-id", b"s"), (b"x-headrace-deadline-ms", value)]).fault
    assert fault is not None
    assert (400, "x-headrace-deadline-ms") == (fault.http_status, fault.param)
    assert "x-headrace-deadline-ms must be a whole number of milliseconds from 1 to 86400000" in fault.message


def test_a_name_that_is_too_long_is_none() -> None:
    """Names take memory."""
    assert ("", None) == _hints([(b"session-id", b"x" * 257)])


@given(st.lists(st.tuples(st.sampled_from([b"session-id", b"x-headrace-deadline-ms", b"x"]), st.binary()), max_size=5))
def test_any_header_can_be_read(headers: list[tuple[bytes, bytes]]) -> None:
    """Whatever bytes a client sends: a hint, a fault, or nothing."""
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
