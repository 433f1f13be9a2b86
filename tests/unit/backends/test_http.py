import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import _http
from backends._http import REFUSAL_BYTES, Refusal, UpstreamNotFound, UpstreamTierFull, from_refusal, refusal_body
from gateway.errors import (
    ConnectionsBusy,
    UpstreamContextExceeded,
    UpstreamError,
    UpstreamFailed,
    UpstreamInvalid,
    UpstreamMisspoke,
    UpstreamOutOfFunds,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnauthorised,
)

KEY = "sk-canary-0123456789"


def _refusal(status: int, body: object = None, *, retry_after_s: float | None = None) -> UpstreamError:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return from_refusal(Refusal(status=status, body=raw, retry_after_s=retry_after_s), {KEY})


def test_our_own_connection_limit_is_not_held_against_the_backend() -> None:
    """When all our connections are busy, another backend is tried and this one's health does not suffer."""
    assert (True, False) == (ConnectionsBusy.retryable, ConnectionsBusy.blames_backend)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, UpstreamRefused),
        (401, UpstreamUnauthorised),
        (402, UpstreamOutOfFunds),
        (403, UpstreamUnauthorised),
        (404, UpstreamNotFound),
        (405, UpstreamNotFound),
        (408, UpstreamTimeout),
        (409, UpstreamRefused),
        (410, UpstreamNotFound),
        (413, UpstreamRefused),
        (422, UpstreamRefused),
        (429, UpstreamRateLimited),
        (498, UpstreamTierFull),
        (451, UpstreamRefused),
        (500, UpstreamFailed),
        (502, UpstreamFailed),
        (503, UpstreamFailed),
        (504, UpstreamTimeout),
        (529, UpstreamFailed),
        (307, UpstreamInvalid),
        (999, UpstreamInvalid),
    ],
)
def test_each_status_has_its_class(status: int, expected: type[UpstreamError]) -> None:
    """The status alone decides the class, and is kept."""
    actual = _refusal(status, {"error": {"message": "no"}})
    assert (expected, status) == (type(actual), actual.upstream_status)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_is_blamed_keeps_its_status_and_harms_nobody(status: int) -> None:
    """What the backend says about the request goes to the client as it is, without a retry or a mark on the backend."""
    error = _refusal(status, {"error": {"message": "too long", "type": "t", "code": "c", "param": "messages"}})
    actual = (error.http_status, error.message, error.upstream_type, error.upstream_code, error.param)
    assert (status, "too long", "t", "c", "messages") == actual
    assert (False, False) == (error.retryable, error.blames_backend)


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize("words", [{"code": "context_length_exceeded"}, {"type": "exceed_context_size_error"}])
def test_context_overflow_may_fit_elsewhere_and_harms_nobody(status: int, words: dict[str, str]) -> None:
    """Clients look for this status and code to shorten their prompt; a larger window may take it as it is."""
    error = _refusal(status, {"error": {"message": "8200 of 8192", **words}})
    assert (UpstreamContextExceeded, status, "8200 of 8192") == (type(error), error.http_status, error.message)
    assert (True, False) == (error.retryable, error.blames_backend)
    assert next(iter(words.values())) in {error.upstream_code, error.upstream_type}


def test_a_context_overflow_is_known_by_its_code_alone() -> None:
    """The same words without the code are a refusal like any other: text for people is not read."""
    words = "This model's maximum context length is 8192 tokens"
    assert UpstreamRefused is type(_refusal(400, {"error": {"message": words, "type": "BadRequestError"}}))


_NOT_THE_REQUESTS_FAULT = {401, 402, 403, 407, 408, 429}
"""Our key, our account, our proxy, a time that ran out over there, and a rate limit of ours."""


@pytest.mark.parametrize("status", [status for status in range(400, 500) if status not in _NOT_THE_REQUESTS_FAULT])
@pytest.mark.parametrize("code", [None, "context_length_exceeded", "invalid_request_error", "rate_limit_exceeded"])
def test_no_error_of_the_clients_is_ever_blamed_on_a_backend(status: int, code: str | None) -> None:
    """Whatever the request has done wrong, the backend's health does not suffer and it does not rest."""
    error = _refusal(status, {"error": {"message": "no", "code": code}})
    assert (False, 0.0) == (error.blames_backend, error.rest_s)


def test_a_missing_model_is_tried_elsewhere_and_harms_nobody() -> None:
    """The policy file names the model, so the client cannot help it, and the backend's other models may be fine."""
    error = _refusal(404, {"error": {"message": "no such model", "code": "model_not_found"}})
    assert (True, False, 502) == (error.retryable, error.blames_backend, error.http_status)


@pytest.mark.parametrize(
    "words",
    [
        {"type": "insufficient_quota", "code": "insufficient_quota"},
        {"type": "insufficient_quota", "code": "project_spend_limit_exceeded"},
        {"type": None, "code": "credit_balance_exhausted"},
        {"type": None, "code": "billing_hard_limit_reached"},
        {"type": "exceeded_current_quota_error", "code": None},
        {"type": "billing_error", "code": None},
    ],
)
@pytest.mark.parametrize("status", [400, 402, 403, 429])
def test_a_hard_quota_is_no_rate_limit(status: int, words: dict[str, str | None]) -> None:
    """What no waiting cures is an account that is used up, by its code or type, and rests for a quarter of an hour."""
    error = _refusal(status, {"error": {"message": "quota", **words}})
    assert (UpstreamOutOfFunds, 900.0) == (type(error), error.rest_s)


def test_a_rate_limit_whose_words_speak_of_quota_is_still_one() -> None:
    """Only the machine-readable words decide."""
    body = {"error": {"message": "You exceeded your current quota", "code": "rate_limit_exceeded"}}
    assert UpstreamRateLimited is type(_refusal(429, body))


def test_a_wait_is_kept() -> None:
    """How long the backend wants to rest goes along, whatever the class."""
    assert [7.0, 7.0] == [_refusal(status, {}, retry_after_s=7.0).retry_after_s for status in (429, 503)]


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
def test_an_upstream_that_quotes_our_key_does_not_tell_it(status: int) -> None:
    """Neither the words nor the type nor the code of an error hold our key or an inner address."""
    words = f"key {KEY} refused at http://10.0.0.7:8000/v1"
    error = _refusal(status, {"error": {"message": words, "type": KEY, "code": KEY, "param": KEY}})
    told = repr((error.message, error.upstream_type, error.upstream_code, error.param, error.args))
    assert KEY not in told
    assert "10.0.0.7" not in told


@pytest.mark.parametrize("masked", ["sk-can*******6789", KEY])
def test_words_about_our_key_are_dropped(masked: str) -> None:
    """A refused key is often quoted with stars in its middle: of a 401 no words go on."""
    assert "the upstream refused our account (401)" == _refusal(401, {"error": {"message": masked}}).message


@given(st.integers(900, 1010))
def test_a_key_is_not_cut_in_half_by_the_bound(position: int) -> None:
    """A message is bounded in length after the key is out, so no half of it is left at the end."""
    message = _refusal(500, {"error": {"message": "x" * position + KEY + "y" * 100}}).message
    assert "sk-" not in message


@given(st.integers(100, 999), st.binary(max_size=200))
def test_any_answer_gives_an_error_with_bounded_words(status: int, body: bytes) -> None:
    """Whatever an upstream sends, an error of the tree comes out, with words of bounded length."""
    error = _refusal(status, body)
    assert isinstance(error, UpstreamError)
    assert 0 < len(error.message) < 1100


class _Dripping:
    """An answer whose body comes byte by byte, without end."""

    status = 400
    headers = ()

    async def piece(self) -> bytes:
        """See ``UpstreamAnswer``."""
        await asyncio.sleep(0)
        return b"x"


async def test_a_body_that_drips_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is the body's, not that of a piece: what came in it is kept."""
    monkeypatch.setattr(_http, "REFUSAL_S", 0)
    body = await refusal_body(_Dripping())
    assert 0 <= len(body) < REFUSAL_BYTES
    assert set(body) <= {ord("x")}


async def test_who_cancels_is_not_kept_waiting() -> None:
    """A client that leaves meanwhile ends it: that is no timeout of ours."""
    reading = asyncio.create_task(refusal_body(_Dripping()))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (413, {"error": {"message": "8000 tokens a minute", "code": "rate_limit_exceeded"}}, UpstreamContextExceeded),
        (400, {"error": {"message": "Failed to call a function", "code": "tool_use_failed"}}, UpstreamMisspoke),
        (400, {"error": {"message": "no JSON", "code": "json_validate_failed"}}, UpstreamMisspoke),
        (403, {"error": {"message": "flagged", "code": 403, "metadata": {"reasons": ["x"]}}}, UpstreamRefused),
        (403, {"error": {"message": "no", "code": 403, "metadata": {"reasons": []}}}, UpstreamUnauthorised),
    ],
)
def test_what_a_status_alone_would_tell_wrongly(status: int, body: dict[str, Any], expected: type) -> None:
    """A request beyond our allowance, a model that wrote no call, and a prompt that was flagged; nobody suffers."""
    error = _refusal(status, body)
    assert expected is type(error)
    assert (expected is UpstreamUnauthorised) is error.blames_backend


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        (
            {
                "object": "error",
                "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "No extras"}]},
                "type": "invalid_request_error",
            },
            "No extras",
            "seed",
        ),
        (
            {"detail": [{"loc": ["body", "messages", 1, "assistant", "refusal"], "msg": "No extras", "input": "x"}]},
            "No extras",
            "messages[1].assistant.refusal",
        ),
        ({"object": "Error", "message": [{"loc": ["body", "tools"], "msg": "No extras"}]}, "No extras", "tools"),
        ({"detail": "Not Found"}, "Not Found", None),
    ],
)
def test_mistrals_errors_name_the_field(body: dict[str, Any], message: str, param: str | None) -> None:
    """As FastAPI has them: the words and the place stand in a list, and what was sent is not repeated."""
    error = _refusal(422, body)
    assert (message, param, 422) == (error.message, error.param, error.http_status)
