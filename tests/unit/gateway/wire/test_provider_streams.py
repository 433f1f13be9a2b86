"""What providers put into streams of OpenAI's shape that is not OpenAI's: ends that are none, errors, counts."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from gateway.errors import UpstreamError, UpstreamFailed, UpstreamRateLimited, UpstreamTruncated
from gateway.wire.chat_reader import ChatStreamReader, chat_reader
from gateway.wire.deltas import ChoiceFinish
from gateway.wire.openai_stream import OpenAIStream
from gateway.wire.openai_usage import read_usage
from gateway.wire.openai_whole import OpenAIWhole
from tests.unit.gateway.wire.chat_stream import DONE, ROLE, STOP, USAGE, chunk, event, payloads, view

WORD = chunk({"content": "word"})


def by_view(data: bytes) -> tuple[bytes, UpstreamError | None]:
    """What OpenAI's client gets, and the error."""
    look = view()
    return look.feed(data), look.error


def by_reader(data: bytes) -> tuple[bytes, UpstreamError | None]:
    """Whether a client of another format is told of an end, and the error."""
    reader = ChatStreamReader()
    ends = [delta for delta in reader.feed(data) if isinstance(delta, ChoiceFinish)]
    return b"finish_reason" if ends else b"", reader.error


READERS = pytest.mark.parametrize("read", [by_view, by_reader])
Read = Callable[[bytes], tuple[bytes, UpstreamError | None]]


@READERS
@pytest.mark.parametrize("reason", ["error", "abort", "insufficient_system_resource"])
def test_an_end_that_is_none_is_an_error(read: Read, reason: str) -> None:
    """OpenRouter, vLLM and DeepSeek say so in the place of a reason: the client must not take it for the whole."""
    out, error = read(ROLE + WORD + chunk(finish=reason) + DONE)
    assert (UpstreamTruncated, reason) == (type(error), error and error.upstream_code)
    assert reason.encode() not in out
    assert out.count(b"finish_reason") <= 2


def _read(body: bytes) -> Any:
    reader = chat_reader(streamed=False)
    reader.feed(body)
    return reader.end()


@pytest.mark.parametrize("take", [lambda body: OpenAIWhole().take(body), _read])
def test_a_whole_answer_that_broke_off_is_none(take: Callable[[bytes], Any]) -> None:
    """So that another may answer."""
    with pytest.raises(UpstreamTruncated):
        take(b'{"choices": [{"index": 0, "message": {"content": "w"}, "finish_reason": "error"}]}')


@READERS
def test_groqs_word_that_a_stream_is_over(read: Read) -> None:
    """It stands beside the choices."""
    _, error = read(ROLE + WORD + chunk(x_groq={"id": "r", "error": "over capacity"}))
    assert (UpstreamFailed, "over capacity") == (type(error), error and error.message)


@READERS
def test_openrouters_error_in_the_middle(read: Read) -> None:
    """Its code is a status; the choice beside it ends with a reason that is none."""
    broken = chunk(finish="error", error={"code": 429, "message": "slow down"}, provider="x")
    _, error = read(ROLE + WORD + broken)
    assert (UpstreamRateLimited, "slow down") == (type(error), error and error.message)


def test_groqs_counts_are_read_where_openais_are_missing() -> None:
    """And stay where they are, for clients of Groq's own."""
    look = view()
    out = look.feed(ROLE + WORD + chunk(finish="stop", x_groq={"usage": USAGE}) + DONE)
    assert (5, 7) == (look.usage and look.usage.prompt_tokens, look.usage and look.usage.output_tokens)
    assert USAGE == payloads(out)[-2]["x_groq"]["usage"]


@pytest.mark.parametrize("continuous", [False, True])
def test_counts_in_every_event_are_for_who_asked(continuous: bool) -> None:
    """With vLLM's ``continuous_usage_stats`` they come to a client that wants them, and to no other."""
    look = OpenAIStream(choices=1, include_usage=True, max_event_bytes=1 << 20, continuous=continuous)
    stream = ROLE + chunk({"content": "w"}, usage=USAGE) + STOP + event({"choices": [], "usage": USAGE}) + DONE
    told = [it for it in payloads(look.feed(stream)) if isinstance(it, dict) and it.get("usage")]
    assert ([1, 0] if continuous else [0]) == [len(it["choices"]) for it in told]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"cost": 0.5, "cost_details": {"upstream_inference_cost": 9}}, "0.5"),
        ({"cost": 0.5, "is_byok": True, "cost_details": {"upstream_inference_cost": 9}}, "9.5"),
        ({"cost": 0.5, "is_byok": True, "cost_details": {"upstream_inference_cost": None}}, "0.5"),
        ({"cost": 0.5, "is_byok": True, "cost_details": None}, "0.5"),
        ({"cost_in_usd_ticks": 37756000}, "0.0037756"),
        ({"cost_in_usd_ticks": 0}, "0"),
        ({"cost_in_usd_ticks": "x"}, None),
        ({"cost_in_usd_ticks": -1}, None),
        ({"cost_in_usd_ticks": 10**18}, None),
    ],
)
def test_what_an_answer_costs_by_its_providers_word(usage: dict[str, Any], expected: str | None) -> None:
    """OpenRouter's fee and what the provider takes of our own key there; xAI's ticks."""
    read = read_usage({"prompt_tokens": 1, "completion_tokens": 1, **usage})
    assert read is not None
    assert (None if expected is None else Decimal(expected)) == read.stated_usd
