from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.price import Usage
from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.wire.formats import FORMATS
from gateway.wire.openai_continuation import Beginning, Seam, continued, may_continue, read_beginning

_ARRIVAL = Arrival(
    id="req_1",
    operation=Operation.CHAT,
    tenant="t",
    received_s=0.0,
    received_unix_s=0.0,
    trace=TraceContext(trace_id="0" * 32, span_id="0" * 16),
)
BEGINNING = Beginning("chatcmpl-1", 7, "It is")


def _request(**fields: Any) -> ChatRequest:
    body = {"model": "m", "messages": [{"role": "user", "content": "why?"}], "stream": True, **fields}
    return FORMATS[Operation.CHAT].read(_ARRIVAL, msgspec.json.encode(body))


def _event(finish_reason: str | None = None, *, index: int = 0, **delta: Any) -> bytes:
    choices = [{"index": index, "delta": delta, "finish_reason": finish_reason}]
    return b"data: %b\n\n" % msgspec.json.encode({"id": "chatcmpl-1", "created": 7, "model": "m", "choices": choices})


OPENING, SAID = _event(role="assistant", content=""), _event(content="It is")


@given(st.lists(st.text(max_size=8), min_size=1, max_size=8))
def test_the_words_so_far_are_read_out_of_the_events(words: list[str]) -> None:
    """Whatever they are and however they were cut; white space alone is nothing to go on with."""
    text = "".join(words)
    beginning = read_beginning(OPENING + b"".join(_event(content=word) for word in words))
    assert (Beginning("chatcmpl-1", 7, text) if text.strip() else None) == beginning


@pytest.mark.parametrize(
    "more",
    [
        _event("stop"),
        _event(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]),
        _event(reasoning_content="hm"),
        _event(refusal="no"),
        _event(content="x", index=1),
        b"data: [DONE]\n\n",
        b'data: {"choices": 1}\n\n',
    ],
)
def test_what_is_more_than_words_is_never_gone_on_with(more: bytes) -> None:
    """A call, a thought, a refusal, a second choice, an end, and what we cannot read."""
    assert read_beginning(OPENING + SAID) is not None
    assert read_beginning(OPENING + SAID + more) is None


@pytest.mark.parametrize(
    ("fields", "may"),
    [
        ({}, True),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, True),
        ({"logprobs": None}, True),
        ({"n": 2}, False),
        ({"stream": False}, False),
        ({"logprobs": True}, False),
        ({"response_format": {"type": "json_object"}}, False),
        ({"structured_outputs": {"regex": "a"}}, False),
        ({"continue_final_message": True}, False),
    ],
)
def test_streams_of_one_plain_answer_may_be_gone_on_with(fields: dict[str, Any], may: bool) -> None:
    """A form would begin anew, and probabilities of a text that another has written are nobody's."""
    assert may is may_continue(_request(**fields))


def test_the_request_for_the_rest_ends_with_the_words_so_far() -> None:
    """What the client wrote goes on byte for byte, with its bound made smaller."""
    rest = continued(_request(max_completion_tokens=10, seed=5, x_own=[1]), "It is", used_tokens=2)
    assert rest is not None
    body = msgspec.json.decode(FORMATS[Operation.CHAT].upstream_body(rest, "served"))
    messages = [{"role": "user", "content": "why?"}, {"role": "assistant", "content": "It is"}]
    assert messages == body["messages"]
    assert (True, False, 8, 5, [1]) == (
        body["continue_final_message"],
        body["add_generation_prompt"],
        body["max_completion_tokens"],
        body["seed"],
        body["x_own"],
    )
    assert "max_tokens" not in body
    assert (8, "It is", 9) == (rest.max_tokens, rest.messages[-1].content, rest.prompt_bytes)


@pytest.mark.parametrize("used_tokens", [10, 11])
def test_an_answer_that_is_as_long_as_it_may_be_has_no_rest(used_tokens: int) -> None:
    """There is nothing to ask for."""
    assert continued(_request(max_tokens=10), "It is", used_tokens=used_tokens) is None
    assert continued(_request(), "It is", used_tokens=used_tokens) is not None


def test_the_rest_is_one_stream_with_its_beginning() -> None:
    """The envelope stays, the role is not told again, the last chunk says by whom, and the counts add up."""
    seam = Seam(BEGINNING, "second", Usage(prompt_tokens=5, output_tokens=2))
    other = (OPENING + _event(content=" so") + _event("stop")).replace(b"chatcmpl-1", b"other").replace(b":7,", b":9,")
    counts = {"prompt_tokens": 8, "completion_tokens": 1, "total_tokens": 9, "prompt_tokens_details": None}
    counted = b"data: %b\n\n" % msgspec.json.encode({"id": "other", "created": 9, "choices": [], "usage": counts})
    frames = seam.join(other + counted + b"data: [DONE]\n\n")
    *events, end, nothing = frames.split(b"\n\n")
    said, finished, usage = (msgspec.json.decode(event[6:]) for event in events)
    assert (b"data: [DONE]", b"") == (end, nothing)
    assert [("chatcmpl-1", 7)] * 3 == [(chunk["id"], chunk["created"]) for chunk in (said, finished, usage)]
    assert (" so", None, {"continued_by": "second"}) == (
        said["choices"][0]["delta"]["content"],
        said.get("headrace"),
        finished["headrace"],
    )
    assert {"prompt_tokens": 13, "completion_tokens": 3, "total_tokens": 16, "prompt_tokens_details": None} == usage[
        "usage"
    ]


@pytest.mark.parametrize("data", [b'{"a":}', b'{"a":"\xff"}', b'{"choices":[', b"[1]", b"x"])
def test_what_is_no_chunk_goes_on_as_it_came(data: bytes) -> None:
    """As it does in a stream that did not break, and what follows it comes."""
    odd = b"data: " + data + b"\n\n"
    joined = Seam(BEGINNING, "second", Usage()).join(odd + _event(content=" so"))
    assert odd + _event(content=" so") == joined


@pytest.mark.parametrize("choices", [b"{}", b"5", b"[null]", b'[{"delta":"x"}]'])
def test_a_chunk_whose_choices_are_none_goes_on_in_its_envelope(choices: bytes) -> None:
    """What it says is the client's to judge."""
    joined = Seam(BEGINNING, "second", Usage()).join(b'data: {"choices":%b}\n\n' % choices)
    assert b'data: {"choices":%b,"id":"chatcmpl-1","created":7}\n\n' % choices == joined
