"""When two requests ask for the same answer."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.caching.question import cache_key, why_not_kept
from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.wire.formats import FORMATS

_ARRIVAL = Arrival(
    id="req-1",
    operation=Operation.CHAT,
    tenant="acme",
    received_s=0,
    received_unix_s=0,
    trace=TraceContext(trace_id="1" * 32, span_id="1" * 16),
)
_CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 0}
_MESSAGES = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 0, "max_tokens": 9}


def _read(body: dict[str, Any] | bytes, operation: Operation = Operation.CHAT, **arrival: Any) -> ChatRequest:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return FORMATS[operation].read(replace(_ARRIVAL, operation=operation, **arrival), raw)


def _key(body: dict[str, Any] | bytes, operation: Operation = Operation.CHAT, **arrival: Any) -> bytes:
    return cache_key(_read(body, operation, **arrival), tenant="/acme")


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "n"},
        {"stream": True},
        {"temperature": 0.5},
        {"seed": 1},
        {"n": 2},
        {"max_tokens": 5},
        {"stop": ["x"]},
        {"logprobs": True},
        {"response_format": {"type": "json_object"}},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"messages": [{"role": "user", "content": "ho"}]},
        {"messages": [{"role": "system", "content": "hi"}]},
        {"a_field_of_tomorrow": 1},
        {"service_tier": "flex"},
    ],
)
def test_whatever_may_change_the_answer_makes_another_question(changes: dict[str, Any]) -> None:
    """Fields that nobody here knows, too."""
    assert _key(_CHAT) != _key(_CHAT | changes)


def test_what_is_for_the_providers_books_does_not_count() -> None:
    """Nor does the order of the fields, nor that the answer is to come as it comes anyway."""
    books = {"user": "u", "metadata": {"a": "b"}, "prompt_cache_key": "k", "safety_identifier": "s", "stream": False}
    assert _key(_CHAT) == _key({**books, **dict(reversed(_CHAT.items()))})


def test_stream_options_count_for_they_are_seen_in_the_stream() -> None:
    """A usage event more or less."""
    streamed = _CHAT | {"stream": True}
    assert _key(streamed) != _key(streamed | {"stream_options": {"include_usage": True}})


def test_a_responses_own_fields_count_for_it_says_them_again() -> None:
    """``metadata`` is in the answer."""
    body = {"model": "m", "input": "hi", "temperature": 0, "store": False}
    assert _key(body, Operation.RESPONSE) != _key(body | {"metadata": {"a": "b"}}, Operation.RESPONSE)


def test_formats_betas_and_tenants_are_apart() -> None:
    """The same words to another endpoint, under another beta, or by somebody else are other questions."""
    beta = {"format_headers": (("anthropic-beta", "x"),)}
    keys = [
        _key(_MESSAGES),
        _key(_MESSAGES, Operation.MESSAGES),
        _key(_MESSAGES, Operation.MESSAGES, **beta),
        cache_key(_read(_MESSAGES), tenant="/other"),
        cache_key(_read(_MESSAGES), tenant=""),
    ]
    assert len(keys) == len(set(keys))


_names = st.text("ab", min_size=1, max_size=3).map("x{}".format)
_values = st.text('ab"', max_size=3) | st.integers(0, 11) | st.none()


@given(st.dictionaries(_names, _values, max_size=3), st.dictionaries(_names, _values, max_size=3))
def test_two_questions_are_never_taken_for_one(some: dict[str, Any], others: dict[str, Any]) -> None:
    """Where one field ends and the next begins is part of the digest."""
    assert (some == others) == (_key(_CHAT | some) == _key(_CHAT | others))


@pytest.mark.parametrize(
    ("body", "operation", "kept"),
    [
        (_CHAT, Operation.CHAT, True),
        ({**_CHAT, "temperature": 1}, Operation.CHAT, False),
        ({**_CHAT, "temperature": 1, "seed": 0}, Operation.CHAT, True),
        ({"model": "m", "messages": _CHAT["messages"]}, Operation.CHAT, False),
        ({"model": "m", "prompt": "x", "temperature": 0}, Operation.COMPLETION, True),
        ({"model": "m", "input": "x"}, Operation.EMBEDDING, True),
        (_MESSAGES, Operation.MESSAGES, True),
        ({**_MESSAGES, "temperature": 1}, Operation.MESSAGES, False),
        ({"model": "m", "messages": _CHAT["messages"]}, Operation.COUNT_TOKENS, False),
        ({"model": "m", "input": "x", "temperature": 0}, Operation.RESPONSE, True),
    ],
)
def test_only_what_would_be_answered_alike_is_kept(body: Any, operation: Operation, kept: bool) -> None:
    """Temperature 0, a seed, or vectors; with ``sampled`` all but counts."""
    request = _read(body, operation)
    assert kept == (not why_not_kept(request, sampled=False))
    assert (operation is not Operation.COUNT_TOKENS) == (not why_not_kept(request, sampled=True))
