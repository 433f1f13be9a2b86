"""The error envelope, out and in."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import (
    HeadraceError,
    InvalidRequest,
    UpstreamError,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamUnauthorised,
)
from gateway.wire.openai_errors import error_body, error_event, read_error


def test_the_envelope_has_its_four_fields() -> None:
    """``null`` where there is nothing to say."""
    fields = {"message": "no", "type": "invalid_request_error", "param": "n", "code": "invalid_request"}
    assert {"error": fields} == json.loads(error_body(InvalidRequest("no", param="n")))
    assert json.loads(error_body(HeadraceError("x")))["error"]["param"] is None


def test_an_upstream_keeps_its_type_and_code() -> None:
    """Clients switch on them."""
    error = UpstreamRefused("no", http_status=422, upstream_type="bad", upstream_code="c7", param="seed")
    assert {"message": "no", "type": "bad", "param": "seed", "code": "c7"} == json.loads(error_body(error))["error"]
    bare = json.loads(error_body(UpstreamFailed("no")))["error"]
    assert ("upstream_error", "upstream_failed") == (bare["type"], bare["code"])


def test_our_own_rejected_key_is_not_reported_as_the_clients() -> None:
    """It would throw its own away."""
    error = UpstreamUnauthorised("no", upstream_type="auth", upstream_code="invalid_api_key")
    assert "upstream_unauthorised" == json.loads(error_body(error))["error"]["code"]


def test_the_event_is_one_frame_around_the_envelope() -> None:
    """The shape that clients raise on."""
    error = UpstreamError("line\nbreak")
    assert b"data: " + error_body(error) + b"\n\n" == error_event(error)


@given(words=st.text(st.characters(), max_size=2000))
def test_any_words_make_valid_json_on_one_line(words: str) -> None:
    """Surrogates, control characters, any length."""
    body = error_body(HeadraceError(words))
    message = json.loads(body)["error"]["message"]
    assert message.isprintable() or "\n" not in message
    assert len(message) <= 6 * 1000


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c", "param": "p"}}, ("m", "t", "c", "p")),
        ({"error": {"message": "m", "type": None, "code": 429}}, ("m", None, "429", None)),
        ({"error": "m"}, ("m", None, None, None)),
        ({"error": "Bad Request", "message": "m", "code": "c"}, ("m", None, "c", None)),
        ({"message": "m"}, ("m", None, None, None)),
        ({"detail": "m"}, ("m", None, None, None)),
        ({"detail": [{"loc": ["body", "n"], "msg": "m", "type": "int"}]}, ("m", None, None, "n")),
        (
            {"object": "error", "message": "m", "type": "BadRequestError", "param": None, "code": 400},
            ("m", "BadRequestError", "400", None),
        ),
        ([{"error": {"message": "m", "code": 400, "status": "X"}}], ("m", None, "400", None)),
        ("m", ("m", None, None, None)),
        ({}, ("", None, None, None)),
        ([], ("", None, None, None)),
        (None, ("", None, None, None)),
        ({"error": None}, ("", None, None, None)),
        ({"error": {"message": {"a": 1}, "code": True, "type": ""}}, ("", None, None, None)),
    ],
)
def test_every_usual_shape_is_read(body: Any, expected: tuple[str | None, ...]) -> None:
    """Whatever a provider sends in the envelope's place."""
    assert expected == read_error(json.dumps(body).encode())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", ""),
        (b" \r\n", ""),
        (b"upstream connect error", "upstream connect error"),
        (
            b"<html><head><title>502 Bad Gateway</title><style>p{}</style></head>\n<body><h1>502</h1></body></html>",
            "502 Bad Gateway 502",
        ),
        (b"\xff\x00\x1b[31mred", "\ufffd\\u0000\\u001b[31mred"),
        (b'{"error":{"message":"cut', '{"error":{"message":"cut'),
        (b'{"message":"a\\r\\nFORGED line \\u2028"}', "a\\u000d\\u000aFORGED line \\u2028"),
        (b"[" * 200_000, None),
    ],
)
def test_what_is_no_json_is_read_as_words(body: bytes, message: str | None) -> None:
    """Without markup and control characters, and bounded."""
    said = read_error(body)[0]
    assert len(said) <= 1000
    if message is not None:
        assert message == said


@given(body=st.binary(max_size=200))
def test_reading_never_fails(body: bytes) -> None:
    """Whatever the bytes are, the words can be encoded and shown."""
    assert read_error(body)[0].encode() is not None
