"""A whole answer goes through unchanged, or is none."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UpstreamFailed, UpstreamInvalid
from gateway.price import Usage
from gateway.wire.openai_usage import MAX_TOKENS, read_usage
from gateway.wire.openai_whole import OpenAIWhole


def body(**fields: Any) -> bytes:
    """A chat's answer with the given fields instead of the usual ones."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "12345"}, "finish_reason": "stop"}
    return json.dumps({"id": "c", "model": "m", "choices": [choice], **fields}).encode()


def test_an_answer_goes_through_unchanged_and_is_measured() -> None:
    """Spaces, unknown fields and all."""
    answer = body(usage={"prompt_tokens": 3, "completion_tokens": 4}, service_tier="x")
    look = OpenAIWhole()
    assert answer == look.take(answer)
    assert Usage(prompt_tokens=3, output_tokens=4) == look.usage
    assert ("stop", "m", 5) == (look.finish_reason, look.model, look.output_bytes)


@pytest.mark.parametrize("usage", [None, [], "x", {}, {"total_tokens": 3}])
def test_missing_counts_are_not_zero_counts(usage: Any) -> None:
    """The difference decides whether they are estimated."""
    look = OpenAIWhole()
    look.take(body(usage=usage))
    assert look.usage is None


@pytest.mark.parametrize("count", [None, True, "7", -7, [7]])
def test_a_count_that_is_none_counts_as_zero(count: Any) -> None:
    """Nobody pays for a negative number of tokens."""
    look = OpenAIWhole()
    look.take(body(usage={"prompt_tokens": 3, "completion_tokens": count, "prompt_tokens_details": count}))
    assert Usage(prompt_tokens=3, inconsistent=count == -7) == look.usage


def test_a_provider_that_counts_cache_hits_beside_the_details_is_understood() -> None:
    """DeepSeek's shape."""
    look = OpenAIWhole()
    look.take(body(usage={"prompt_tokens": 9, "prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 1}))
    assert Usage(prompt_tokens=9, cached_tokens=8) == look.usage


def test_a_completion_and_its_text_are_measured_too() -> None:
    """The output is in another place."""
    look = OpenAIWhole()
    look.take(body(choices=[{"index": at, "text": "123", "finish_reason": "length"} for at in (0, 1)]))
    assert ("length", 6) == (look.finish_reason, look.output_bytes)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b" \n",
        b"<html>",
        b"[]",
        b"null",
        b'{"choices":',
        body()[:-2],
        body(choices=[]),
        body(choices=None),
        b"{}",
        b'{"choices":' * 100_000,
        body(choices={}),
        body(choices=[1]),
    ],
)
def test_what_is_no_answer_is_refused(answer: bytes) -> None:
    """Empty, cut, not JSON, or without choices."""
    with pytest.raises(UpstreamInvalid):
        OpenAIWhole().take(answer)


@pytest.mark.parametrize(
    "answer",
    [
        body(error={"message": "out of memory on 10.1.2.3:80", "type": "oom", "code": "e1"}),
        b'{"error":{"message":"out of memory","type":"oom","code":"e1"}}',
        b'{"object":"error","message":"out of memory","type":"oom","code":"e1"}',
    ],
)
def test_an_error_in_the_clothes_of_a_success_is_an_error(answer: bytes) -> None:
    """Its words and class survive, our addresses do not."""
    with pytest.raises(UpstreamFailed, match="out of memory") as caught:
        OpenAIWhole().take(answer)
    assert ("oom", "e1") == (caught.value.upstream_type, caught.value.upstream_code)
    assert "10.1.2.3" not in caught.value.message


_COUNTS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.sampled_from([MAX_TOKENS, MAX_TOKENS + 1, 10**30, 2.0, 2.5, -0.5, "7", [], {}]),
)
_DETAILS = st.one_of(
    _COUNTS,
    st.dictionaries(st.sampled_from(["cached_tokens", "cache_write_tokens", "reasoning_tokens"]), _COUNTS, max_size=3),
)
_USAGE = st.dictionaries(
    st.sampled_from(
        [
            "prompt_tokens",
            "completion_tokens",
            "prompt_tokens_details",
            "completion_tokens_details",
            "prompt_cache_hit_tokens",
            "cost",
            "cost_in_usd_ticks",
        ]
    ),
    _DETAILS,
)


@given(usage=_USAGE)
def test_usage_that_is_as_usual_and_usage_that_is_odd_are_read_to_the_same_effect(usage: dict[str, Any]) -> None:
    """The decoder judges what it can, and leaves the rest to who reads with tolerance."""
    look = OpenAIWhole()
    look.take(body(usage=usage))
    assert read_usage(usage) == look.usage
