"""What a stream looks like to its client and to the meter, whatever the upstream makes of it."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UpstreamInvalid, UpstreamTruncated
from gateway.wire import openai_chunk
from gateway.wire.openai_stream import OpenAIStream
from tests.unit.gateway.wire.chat_stream import (
    COUNTS,
    DONE,
    HELLO,
    MORE,
    ROLE,
    STOP,
    USAGE,
    chunk,
    event,
    payloads,
    view,
)

GOOD = ROLE + HELLO + MORE + STOP + event({"id": "c", "choices": [], "usage": USAGE}) + DONE


def test_a_plain_stream_goes_through_byte_for_byte() -> None:
    """And is metered on the way."""
    look = view(include_usage=True)
    assert GOOD == look.feed(GOOD) + look.end()
    assert (COUNTS, "stop", "m", True, None) == (look.usage, look.finish_reason, look.model, look.done, look.error)


def test_every_cut_and_every_line_end_gives_the_client_the_same_bytes() -> None:
    """Cut once at every offset, and byte by byte; LF, CRLF, CR; comments, no space, byte order mark."""
    variants = [GOOD, GOOD.replace(b"\n", b"\r\n"), GOOD.replace(b"\n", b"\r"), GOOD.replace(b"data: ", b"data:")]
    variants.append(b"\xef\xbb\xbf" + GOOD.replace(b"\n\n", b"\n: ping\n\n: ping\n\n"))
    for stream in variants:
        for at in range(len(stream)):
            look = view(include_usage=True)
            assert GOOD == look.feed(stream[:at]) + look.feed(stream[at:]) + look.end()
            assert COUNTS == look.usage
        look = view(include_usage=True)
        assert GOOD == b"".join(look.feed(stream[at : at + 1]) for at in range(len(stream))) + look.end()


FRAGMENTS = [
    ROLE,
    HELLO,
    MORE,
    STOP,
    chunk({"content": "x"}, usage=USAGE),
    chunk({"content": "x"}, usage=None),
    chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}),
    chunk({"tool_calls": [{"index": 0, "id": "b", "function": {"name": "f", "arguments": "{}"}}]}),
    event({"choices": [], "usage": USAGE}),
    event({"usage": USAGE}),
    event({"choices": [], "prompt_filter_results": []}),
    event({"error": {"message": "no"}}),
    b"event: error\ndata: {}\n\n",
    b": comment\n\n",
    b"data: \n\n",
    b"data:{}\r\n\r\n",
    DONE,
]


@given(
    parts=st.lists(st.sampled_from(FRAGMENTS), max_size=12),
    size=st.integers(1, 400),
    include_usage=st.booleans(),
)
def test_what_the_client_gets_does_not_depend_on_the_cuts(parts: list[bytes], size: int, include_usage: bool) -> None:
    """Any stream, in one piece and in many: the same bytes, the same counts, the same ending."""

    def outcome(pieces: list[bytes]) -> tuple[Any, ...]:
        look = view(include_usage=include_usage)
        out = b"".join(look.feed(piece) for piece in pieces)
        try:
            out += look.end()
            ending = None
        except (UpstreamTruncated, UpstreamInvalid) as error:
            ending = type(error)
        error = look.error and look.error.message
        out = re.sub(rb'"call_[0-9a-f]{24}"', b'"made up"', out)
        return out, ending, look.usage, look.finish_reason, look.visible, look.done, error

    stream = b"".join(parts)
    assert outcome([stream]) == outcome([stream[at : at + size] for at in range(0, len(stream), size)])


def test_a_line_of_three_megabytes_goes_through() -> None:
    """There is no ceiling below the configured one."""
    big = chunk({"content": "x" * 3 * 1024 * 1024})
    look = view()
    out = b"".join(look.feed((big + STOP)[at : at + 16384]) for at in range(0, len(big + STOP), 16384))
    assert big + STOP + DONE == out + look.end()


def test_an_event_over_the_bound_is_refused_on_the_quick_path_too() -> None:
    """Where whole events pass unparsed."""
    look = OpenAIStream(choices=1, include_usage=False, max_event_bytes=1000)
    look.feed(HELLO)
    with pytest.raises(UpstreamInvalid, match="more than 1000 bytes"):
        look.feed(chunk({"content": "x" * 1000}))


@pytest.mark.parametrize("line", [b": comment", b"id: 7", b"event: message", b"retry: 1"])
def test_lines_that_are_no_data_never_reach_the_client(line: bytes) -> None:
    """Before, inside or after an event, once plain events pass unparsed."""
    inside = (MORE[:-1] + line + b"\n\n", MORE[:-2] + b"\r" + line + b"\n\n")
    for odd in (line + b"\n" + MORE, *inside, MORE + line + b"\n\n"):
        look = view()
        assert ROLE + HELLO + MORE + MORE + MORE == look.feed(ROLE + HELLO) + look.feed(MORE + odd + MORE)


# ---- when something is visible --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x"},
        {"content": " "},
        {"content": [{"type": "text", "text": "x"}]},
        {"reasoning_content": "x"},
        {"reasoning": "x"},
        {"refusal": "x"},
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}]},
        {"function_call": {"name": "f"}},
        {"audio": {"id": "a"}},
    ],
)
def test_output_of_any_kind_is_visible(delta: dict[str, Any]) -> None:
    """From there on, there is no second try."""
    look = view()
    look.feed(ROLE)
    assert not look.visible
    look.feed(chunk(delta))
    assert look.visible


@pytest.mark.parametrize("delta", [{}, {"role": "assistant"}, {"content": None, "tool_calls": []}, {"content": ""}])
def test_an_opening_is_not_visible(delta: dict[str, Any]) -> None:
    """It says nothing yet."""
    look = view()
    assert chunk(delta) == look.feed(chunk(delta))
    assert not look.visible
    assert 0 == look.output_bytes


def test_an_end_is_visible_and_so_is_a_completion_text() -> None:
    """An empty answer is an answer."""
    for shown in (STOP, event({"choices": [{"index": 0, "text": "x"}]})):
        look = view()
        look.feed(shown)
        assert look.visible


# ---- what it costs --------------------------------------------------------------------------------------------------


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Everything that a chunk's decoder was given."""
    seen: list[bytes] = []
    decoder = openai_chunk._CHUNK

    class Counting:
        def decode(self, data: bytes) -> Any:
            seen.append(data)
            return decoder.decode(data)

    monkeypatch.setattr(openai_chunk, "_CHUNK", Counting())
    return seen


@pytest.mark.parametrize("transform", [bytes, lambda data: data.replace(b"\n", b"\r\n")])
def test_plain_deltas_are_not_parsed_once_something_is_visible(
    parses: list[bytes], transform: Callable[[bytes], bytes]
) -> None:
    """However they are cut, and whatever their text says."""
    look = view()
    null = chunk({"content": "x", "tool_calls": None}, usage=None, error=None)
    out = look.feed(transform(ROLE + HELLO))
    for _ in range(50):
        out += look.feed(transform(MORE)) + look.feed(transform(MORE + HELLO + null))
    assert ROLE + HELLO + (MORE + MORE + HELLO + null) * 50 == out
    assert 2 == len(parses)
    look.feed(transform(STOP))
    assert 3 == len(parses)


def test_another_kind_of_text_is_known_from_its_first_event_on(parses: list[bytes]) -> None:
    """What was thought comes before what is said: each is looked into once. What changes always is soon left alone."""
    look = view()
    for field in ("reasoning", "content"):
        for number in range(50):
            look.feed(chunk({field: f"word{number}"}))
    assert 2 == len(parses)
    for number in range(100):
        look.feed(event({"id": number, "choices": [{"index": 0, "delta": {"content": "word"}}]}))
    assert 8 == len(parses)


def test_markers_are_found_where_the_json_has_spaces() -> None:
    """Python's own writer puts one after each colon."""
    look = view()
    for fields in ({"content": "x"}, {}):
        choice = {"index": 0, "delta": fields, "finish_reason": None if fields else "stop"}
        look.feed(b"data: " + json.dumps({"choices": [choice], "usage": None}).encode() + b"\n\n")
    assert "stop" == look.finish_reason


@pytest.mark.parametrize("per_read", [1, 5])
def test_output_is_estimated_within_reason_where_it_is_not_parsed(per_read: int) -> None:
    """The envelope is known from the first chunk, so that only the text is left."""
    look = view()
    look.feed(ROLE + chunk({"content": "12345"}))
    for _ in range(20):
        look.feed(chunk({"content": "1234567890"}) * per_read)
    assert 5 + 200 * per_read == look.output_bytes


# ---- tool calls -----------------------------------------------------------------------------------------------------


def test_only_chunks_with_a_wrong_tool_call_are_rewritten() -> None:
    """The rest of a rewritten chunk stays as it was."""
    look = view()
    right = chunk(
        {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]}
    )
    more = chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"x":1}'}}]}, t=1.5)
    wrong = chunk(
        {"tool_calls": [{"index": 0, "id": "b", "type": "function", "function": {"name": "f", "arguments": ""}}]}
    )
    put_right = wrong.replace(b'"tool_calls":[{"index":0', b'"tool_calls":[{"index":1')
    assert right + more + put_right == look.feed(right + more + wrong)
    done = look.feed(chunk(finish="tool_calls")) + look.end()
    assert [["tool_calls"], "[DONE]"] == [
        [choice["finish_reason"] for choice in said["choices"]] if isinstance(said, dict) else said
        for said in payloads(done)
    ]


def test_tool_calls_that_are_no_list_are_no_answer() -> None:
    """There is nothing to forward."""
    with pytest.raises(UpstreamInvalid):
        view().feed(chunk({"tool_calls": {"index": 0}}))


def test_tool_calls_of_two_choices_are_repaired_apart() -> None:
    """Also where they share a chunk."""
    look = view(choices=2)
    call = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}

    def both(entry: dict[str, Any]) -> bytes:
        return event({"choices": [{"index": at, "delta": {"tool_calls": [entry]}} for at in (0, 1)]})

    shown = payloads(look.feed(both(call) + both({**call, "id": "b"})))
    indexes = [[choice["delta"]["tool_calls"][0]["index"] for choice in said["choices"]] for said in shown]
    assert [[0, 0], [1, 1]] == indexes


def test_the_look_keeps_no_more_than_it_needs() -> None:
    """A chunk with counts is kept only where it is owed."""
    look = view()
    look.feed(HELLO + chunk({"content": "x"}, usage=USAGE))
    assert look._usage_chunk is None
