import msgspec
import pytest

from gateway.errors import (
    UpstreamContextExceeded,
    UpstreamError,
    UpstreamFailed,
    UpstreamMisspoke,
    UpstreamOutOfFunds,
    UpstreamRateLimited,
    UpstreamTimeout,
)
from gateway.wire.openai_errors import error_body
from gateway.wire.upstream_codes import error_inside


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"code": "rate_limit_exceeded"}, UpstreamRateLimited),
        ({"type": "rate_limit_error"}, UpstreamRateLimited),
        ({"code": "insufficient_quota", "type": "rate_limit_error"}, UpstreamOutOfFunds),
        ({"code": "context_length_exceeded"}, UpstreamContextExceeded),
        ({"code": 429}, UpstreamRateLimited),
        ({"code": 402}, UpstreamOutOfFunds),
        ({"code": 504}, UpstreamTimeout),
        ({"code": 502}, UpstreamFailed),
        ({"code": "tool_use_failed"}, UpstreamMisspoke),
        ({"type": "server_error"}, UpstreamFailed),
        ({}, UpstreamFailed),
    ],
)
def test_an_error_inside_an_answer_has_the_class_of_its_code(words: dict[str, object], expected: type) -> None:
    """A 200 that turns into an error is told apart like a refusal: by code and type, never by its text."""
    error = error_inside(msgspec.json.encode({"error": {"message": "rate limit, quota, context", **words}}), "mute")
    assert (expected, "rate limit" in error.message) == (type(error), expected is not UpstreamOutOfFunds)


def test_an_account_that_is_used_up_is_not_told_as_the_clients_own() -> None:
    """Neither the words nor the code of our own bill reach a client."""
    error = error_inside(b'{"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}', "mute")
    assert b"quota" not in error_body(error)


def test_a_mute_error_gets_words() -> None:
    """An error without a message is told in ours."""
    error: UpstreamError = error_inside(b'{"error": {"code": "x"}}', "it said nothing")
    assert ("it said nothing", "x") == (error.message, error.upstream_code)
