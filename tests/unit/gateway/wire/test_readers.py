"""What providers send: read as deltas however it is cut, and never more than an upstream's error where it is odd."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import UpstreamError, UpstreamFailed, UpstreamInvalid, UpstreamTruncated
from gateway.price import Usage
from gateway.wire.anthropic_reader import anthropic_reader
from gateway.wire.chat_reader import chat_reader
from gateway.wire.deltas import (
    AnswerEnd,
    ChoiceFinish,
    Delta,
    ReasoningDelta,
    ReasoningSignature,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
    UsageReport,
)
from gateway.wire.translation import AnswerReader
from tests.unit.gateway.wire.chat_stream import DONE, chunk

Reader = Callable[[bool], AnswerReader]
READERS: dict[str, Reader] = {"chat": chat_reader, "anthropic": anthropic_reader}
ODD = st.recursive(
    st.sampled_from([None, True, 0, -1, 1.5, "", "x", "error"]),
    lambda it: st.lists(it, max_size=2) | st.dictionaries(st.sampled_from(["a", "type", "text", "function"]), it),
    max_leaves=4,
)


def some(*names: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of these fields: as they should be, or odd."""
    odd = dict.fromkeys(names, ODD)
    return st.fixed_dictionaries({}, optional={**odd, **{name: it | ODD for name, it in fields.items()}})


CALLS = st.lists(some("id", "type", index=st.integers(0, 2), function=some("name", "arguments")), max_size=2)
OUTPUT = some("content", "reasoning_content", "thinking_blocks", "refusal", "function_call", tool_calls=CALLS)
CHAT = some(
    "id",
    "model",
    "created",
    "error",
    "usage",
    choices=st.lists(some("finish_reason", "index", delta=OUTPUT, message=OUTPUT)),
)
BLOCK = some("text", "thinking", "signature", "data", "id", "name", "input", type=st.sampled_from(["text", "tool_use"]))
KINDS = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "error"]
ANTHROPIC = some(
    "index",
    "usage",
    "error",
    "content",
    "stop_reason",
    type=st.sampled_from([*KINDS, "message_stop"]),
    message=some("id", "model", "usage", "content"),
    content_block=BLOCK,
    delta=some(
        "text", "thinking", "partial_json", "stop_reason", type=st.sampled_from(["text_delta", "input_json_delta"])
    ),
)


def is_read(reader_of: Reader, bodies: list[Any], *, streamed: bool) -> bool:
    """Whether it is an answer; an upstream's error is the only other outcome."""
    reader = reader_of(streamed)
    data = [json.dumps(body).encode() for body in bodies]
    try:
        for body in data:
            reader.feed(b"data: " + body + b"\n\n" if streamed else body)
        reader.end()
    except UpstreamError:
        return False
    return reader.error is None


@settings(max_examples=150)
@given(st.lists(CHAT, max_size=3), st.booleans())
def test_no_chat_breaks_the_reader(bodies: list[Any], streamed: bool) -> None:
    """Whatever is in it."""
    assert is_read(chat_reader, bodies, streamed=streamed) in {True, False}


@settings(max_examples=150)
@given(st.lists(ANTHROPIC, max_size=4), st.booleans())
def test_no_message_breaks_the_reader(bodies: list[Any], streamed: bool) -> None:
    """Whatever is in it."""
    assert is_read(anthropic_reader, bodies, streamed=streamed) in {True, False}


def read_chat(*frames: bytes) -> list[Delta]:
    """The deltas of a stream that ends well, without its beginning and its end."""
    reader = chat_reader(streamed=True)
    deltas = [*reader.feed(b"".join(frames)), *reader.end()]
    assert isinstance(deltas[-1], AnswerEnd)
    return deltas[1:-1]


def test_thoughts_of_a_chat() -> None:
    """By any of the names that servers have for them, as parts too; with their signatures once."""
    signed = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    expected = [ReasoningDelta(text="hm"), ReasoningSignature(signature="s"), TextDelta(text="so")]
    for frames in (
        ({"reasoning_content": "hm"}, {"thinking_blocks": signed}),
        ({"reasoning": "hm"}, {"thinking_blocks": signed}),
        ({"thinking_blocks": signed},),
    ):
        assert expected == read_chat(*(chunk(it) for it in (*frames, {"content": "so"})), DONE)
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "so"}]
    assert [expected[0], expected[2]] == read_chat(chunk({"content": parts}), DONE)


def test_the_string_that_stopped_it() -> None:
    """As vLLM and SGLang tell it; a token's number is no string."""
    for name, value, told in (
        ("stop_reason", "###", "###"),
        ("matched_stop", "###", "###"),
        ("stop_reason", 128009, None),
    ):
        frame = json.loads(chunk(finish="stop").removeprefix(b"data: "))
        frame["choices"][0][name] = value
        (finish,) = read_chat(b"data: " + json.dumps(frame).encode() + b"\n\n")
        assert ChoiceFinish(reason="stop", stop_sequence=told) == finish


ENDINGS: list[tuple[str, bytes, type[UpstreamError]]] = [
    ("chat", b"", UpstreamInvalid),
    ("chat", chunk({"content": "a"}), UpstreamTruncated),
    ("chat", b"data: nonsense\n\n", UpstreamInvalid),
    ("anthropic", b"", UpstreamInvalid),
    ("anthropic", b'data: {"type":"message_start","message":{}}\n\n', UpstreamTruncated),
    ("anthropic", b"data: nonsense\n\n", UpstreamInvalid),
]


@pytest.mark.parametrize(("format_", "data", "error"), ENDINGS)
def test_what_is_no_answer(format_: str, data: bytes, error: type[UpstreamError]) -> None:
    """A closed connection is no end, and silence is no answer."""
    reader = READERS[format_](streamed=True)  # type: ignore[call-arg]  # the door's parameter has no name

    def read() -> None:
        reader.feed(data)
        reader.end()

    with pytest.raises(error):
        read()


def test_an_error_comes_after_what_was_said() -> None:
    """And nothing after it counts."""
    reader = anthropic_reader(streamed=True)
    said = (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}\n\n'
    )
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'
    assert [TextDelta(text="a")] == reader.feed(said + error + said)
    assert isinstance(reader.error, UpstreamFailed)
    assert ("busy", "overloaded_error") == (reader.error.message, reader.error.upstream_type)
    assert [] == [*reader.feed(said), *reader.end()]


def test_cumulative_counts_replace() -> None:
    """Anthropic says the input twice: it counts once."""
    reader = anthropic_reader(streamed=True)
    start = {"input_tokens": 317, "cache_creation_input_tokens": 4425, "cache_read_input_tokens": 0, "output_tokens": 1}
    deltas = reader.feed(
        b"".join(
            b"data: " + json.dumps(event).encode() + b"\n\n"
            for event in (
                {"type": "message_start", "message": {"id": "m", "usage": start}},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {**start, "output_tokens": 9}},
                {"type": "message_stop"},
            )
        )
    )
    usage = [it.usage for it in deltas if isinstance(it, UsageReport)][-1]
    assert Usage(prompt_tokens=4742, output_tokens=9, cache_write_tokens=4425) == usage


def test_a_call_whose_input_never_came_has_none() -> None:
    """Anthropic starts each with an empty object and may leave it at that."""
    reader = anthropic_reader(streamed=False)
    block = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    reader.feed(json.dumps({"content": [block], "stop_reason": "tool_use"}).encode())
    expected = [ToolCallStart(index=0, id="a", name="f"), ToolCallArguments(index=0, text="{}")]
    assert expected == [it for it in reader.end() if isinstance(it, ToolCallStart | ToolCallArguments)]
