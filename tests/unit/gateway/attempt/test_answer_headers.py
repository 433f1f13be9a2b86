from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.attempt.answer_headers import Receipt, error_headers
from gateway.attempt.attempt_cost import AttemptCost
from gateway.errors import (
    InvalidRequest,
    LimitExceeded,
    NoCandidate,
    Overloaded,
    ShuttingDown,
    Unauthenticated,
    UpstreamOutOfFunds,
    UpstreamTimeout,
    UpstreamUnauthorised,
)
from gateway.facts import BackendFacts
from gateway.price import Price, Usage
from gateway.prices.price_book import PriceBook


def _headers(
    make_request: Any,
    make_context: Any,
    make_candidate: Any,
    *,
    stream: bool = False,
    usage: Usage | None = None,
    **of: Any,
) -> dict[bytes, bytes]:
    ctx = make_context(make_request("hi", stream=stream), prompt_tokens=1000, p50=100)
    candidate = make_candidate(**of)
    facts = BackendFacts(models={}, operations=frozenset())
    cost = AttemptCost(ctx.request, candidate, facts, book=PriceBook(), started_s=0.0)
    return dict(Receipt(ctx, candidate, cost, attempt=2).headers(usage))


def test_an_answer_says_where_it_came_from(make_request: Any, make_context: Any, make_candidate: Any) -> None:
    """Request, backend, model, forecast and attempt stand in every answer."""
    headers = _headers(make_request, make_context, make_candidate)
    assert (b"req-1", b"alpha", b"small", b"100", b"2") == tuple(
        headers[name]
        for name in (
            b"x-request-id",
            b"x-headrace-backend",
            b"x-headrace-model",
            b"x-headrace-forecast-tokens",
            b"x-headrace-attempts",
        )
    )


@pytest.mark.parametrize(("usage", "expected"), [(None, None), (Usage(), None), (Usage(cached_tokens=7), b"7")])
def test_how_much_of_the_prompt_was_remembered(
    make_request: Any, make_context: Any, make_candidate: Any, usage: Usage | None, expected: bytes | None
) -> None:
    """Where any was, and where it is known before the headers go."""
    headers = _headers(make_request, make_context, make_candidate, usage=usage)
    assert expected == headers.get(b"x-headrace-cached-tokens")


@pytest.mark.parametrize(("stream", "kind"), [(True, b"text/event-stream"), (False, b"application/json")])
def test_streams_and_whole_answers_have_their_own_kind(
    make_request: Any, make_context: Any, make_candidate: Any, stream: bool, kind: bytes
) -> None:
    """A stream must not be cached, changed or buffered by what stands in between."""
    headers = _headers(make_request, make_context, make_candidate, stream=stream)
    assert headers[b"content-type"].startswith(kind)
    assert stream is (headers.get(b"x-accel-buffering") == b"no")
    assert stream is (b"no-transform" in headers.get(b"cache-control", b""))


def test_the_cost_is_of_the_usage_or_else_of_the_forecast(
    make_request: Any, make_context: Any, make_candidate: Any
) -> None:
    """Written out in digits, never in powers of ten, and left out where no price is known."""
    cost = b"x-headrace-cost-usd"
    arguments = (make_request, make_context, make_candidate)
    assert b"0.0012" == _headers(*arguments)[cost]
    assert b"0.00001" == _headers(*arguments, usage=Usage(prompt_tokens=10))[cost]
    tiny = Price(input_usd_per_mtok=Decimal("0.0001"), output_usd_per_mtok=Decimal(0))
    assert b"0.0000000001" == _headers(*arguments, usage=Usage(prompt_tokens=1), price=tiny)[cost]
    assert cost not in _headers(*arguments, price=None)


@given(name=st.text(min_size=1))
def test_no_name_breaks_a_header(make_request: Any, make_context: Any, make_candidate: Any, name: str) -> None:
    """A model may be called anything: what a header cannot hold is percent-encoded, and nobody can add a line."""
    name = name.encode("utf-8", "ignore").decode()
    value = _headers(make_request, make_context, make_candidate, model=name)[b"x-headrace-model"]
    assert value.isascii()
    assert value.decode().isprintable()


def test_usual_names_stay_readable(make_request: Any, make_context: Any, make_candidate: Any) -> None:
    """Slashes, colons, dots and brackets are left alone; only the rest is encoded."""
    names = {"meta/llama-3.3:70b@v1 (fast)": b"meta/llama-3.3:70b@v1 (fast)", "通义\n": b"%E9%80%9A%E4%B9%89%0A"}
    for name, value in names.items():
        assert value == _headers(make_request, make_context, make_candidate, model=name)[b"x-headrace-model"]


@pytest.mark.parametrize(("seconds", "value"), [(0.0, b"1"), (0.2, b"1"), (1.0, b"1"), (1.01, b"2"), (61.5, b"62")])
def test_retry_after_is_in_whole_seconds_and_never_too_soon(seconds: float, value: bytes) -> None:
    """Rounded up, and at least one."""
    headers = dict(error_headers("req-1", Overloaded("full", retry_after_s=seconds)))
    assert (value, b"req-1", b"0") == (
        headers[b"retry-after"],
        headers[b"x-request-id"],
        headers[b"x-headrace-attempts"],
    )


def test_an_error_has_no_header_that_does_not_belong_to_it() -> None:
    """A challenge goes with a 401, as RFC 9110 wants it, and a time to come back where there is one."""
    assert b"Bearer" == dict(error_headers("r", Unauthenticated("no key")))[b"www-authenticate"]
    assert {b"content-type", b"x-request-id", b"x-headrace-attempts"} == {
        name for name, _ in error_headers("r", InvalidRequest("wrong"))
    }


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UpstreamUnauthorised("x"), b"false"),
        (UpstreamOutOfFunds("x"), b"false"),
        (LimitExceeded("larger than the whole limit"), b"false"),
        (Overloaded("nobody knows what it costs"), b"false"),
        (LimitExceeded("x", retry_after_s=2.0), None),
        (Overloaded("x", retry_after_s=2.0), None),
        (NoCandidate("x", retry_after_s=2.0), None),
        (ShuttingDown("x"), None),
        (UpstreamTimeout("x"), None),
        (InvalidRequest("x"), None),
    ],
)
def test_who_cannot_be_helped_by_asking_again_is_told_so(error: Any, expected: bytes | None) -> None:
    """An SDK would otherwise ask twice more, whose status is a 429 or a 5xx."""
    assert expected == dict(error_headers("req-1", error)).get(b"x-should-retry")
