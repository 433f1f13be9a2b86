"""Deltas as Anthropic's events and messages: the grammar holds whatever comes, and nothing of it is lost."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from gateway.errors import UpstreamInvalid
from gateway.price import Usage
from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.wire.anthropic_reader import anthropic_reader
from gateway.wire.anthropic_writer import anthropic_writer
from gateway.wire.chat_reader import chat_reader
from gateway.wire.deltas import (
    AnswerEnd,
    AnswerStart,
    ChoiceFinish,
    Delta,
    ReasoningDelta,
    ReasoningSignature,
    RedactedReasoning,
    RefusalDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
    UsageReport,
)
from tests.anthropic_answers import blocks_of, checked_events, checked_message
from tests.unit.gateway.wire.chat_stream import DONE, chunk, event

TRACE = TraceContext(trace_id="0" * 32, span_id="0" * 16)
ARRIVAL = Arrival(id="r", operation=Operation.MESSAGES, tenant="t", received_s=0, received_unix_s=0, trace=TRACE)
ASKED = ChatRequest(arrival=ARRIVAL, model="m", prompt_bytes=40)
COUNTS = Usage(prompt_tokens=10, output_tokens=4, cached_tokens=3, cache_write_tokens=2, reasoning_tokens=1)
CALL = {"index": 0, "id": "call_a", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
OTHER = {"index": 1, "id": "call_b", "type": "function", "function": {"name": "g", "arguments": ""}}


def streamed(*deltas: Delta) -> list[dict[str, Any]]:
    """The checked events of an answer of these deltas, one by one."""
    writer = anthropic_writer(ASKED, streamed=True)
    return checked_events(b"".join(writer.write([delta]) for delta in (AnswerStart(id="x"), *deltas, AnswerEnd())))


def whole(*deltas: Delta) -> dict[str, Any]:
    """The checked message of these deltas."""
    return checked_message(anthropic_writer(ASKED, streamed=False).write([AnswerStart(id="x"), *deltas, AnswerEnd()]))


def from_chat(*frames: bytes) -> list[dict[str, Any]]:
    """The checked events that a chat's stream becomes."""
    reader, writer = chat_reader(streamed=True), anthropic_writer(ASKED, streamed=True)
    return checked_events(writer.write(reader.feed(b"".join(frames))) + writer.write(reader.end()))


def both(*deltas: Delta) -> list[dict[str, Any]]:
    """The blocks of an answer, which are the same streamed and whole."""
    content: list[dict[str, Any]] = whole(*deltas)["content"]
    blocks = [
        {name: value for name, value in block.items() if name not in {"citations", "caller"}} for block in content
    ]
    assert blocks == blocks_of(streamed(*deltas))
    return blocks


CHAT_STREAMS: dict[str, tuple[bytes, ...]] = {
    "a call first": (chunk({"tool_calls": [CALL]}), chunk(finish="tool_calls")),
    "text, then two calls": (
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "hm"}),
        chunk({"tool_calls": [CALL]}),
        chunk({"tool_calls": [OTHER]}),
        chunk(finish="tool_calls"),
    ),
    "calls side by side": (
        chunk({"tool_calls": [{**CALL, "function": {"name": "f", "arguments": '{"a"'}}, OTHER]}),
        chunk({"tool_calls": [{"index": 1, "function": {"arguments": '{"b":2}'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}),
        chunk(finish="tool_calls"),
    ),
    "all calls at index 0": (
        chunk({"tool_calls": [CALL]}),
        chunk({"tool_calls": [{**OTHER, "index": 0}]}),
        chunk(finish="stop"),
    ),
    "the end twice": (chunk({"content": "hi"}), chunk(finish="stop"), chunk(finish="stop")),
    "counts after the end": (
        chunk({"content": "hi"}),
        chunk(finish="stop"),
        event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}),
    ),
}


@pytest.mark.parametrize("end", [True, False], ids=["an end mark", "no end mark"])
@pytest.mark.parametrize("name", CHAT_STREAMS)
def test_every_chat_becomes_a_stream_of_good_grammar(name: str, end: bool) -> None:
    """Blocks open and close one after the other, the message begins and ends once, each call's input is JSON."""
    events = from_chat(*CHAT_STREAMS[name], *([DONE] if end else []))
    calls = [block for block in blocks_of(events) if block["type"] == "tool_use"]
    assert ("tool_use" if calls else "end_turn") == events[-2]["delta"]["stop_reason"]
    assert all(call["input"] == {"f": {"a": 1}}.get(call["name"], call["input"]) for call in calls)


def test_an_empty_stream_is_no_answer() -> None:
    """Nothing is made of it."""
    with pytest.raises(UpstreamInvalid):
        chat_reader(streamed=True).end()
    with pytest.raises(UpstreamInvalid):
        chat_reader(streamed=True).feed(DONE)


def test_thoughts_keep_their_signatures() -> None:
    """Each is a block of its own; one that nobody may read is a block too."""
    blocks = both(
        ReasoningDelta(text="one"),
        ReasoningSignature(signature="s1"),
        RedactedReasoning(data="d"),
        ReasoningDelta(text="two"),
        ReasoningSignature(signature="s2"),
        TextDelta(text="so"),
    )
    assert [
        {"type": "thinking", "thinking": "one", "signature": "s1"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "thinking", "thinking": "two", "signature": "s2"},
        {"type": "text", "text": "so"},
    ] == blocks


@pytest.mark.parametrize("stream", [True, False])
def test_thoughts_may_be_asked_for_without_words(stream: bool) -> None:
    """The block is there, with what it is signed with, for the next turn."""
    asked = replace(ASKED, raw={"thinking": Raw(b'{"type":"adaptive","display":"omitted"}')})
    said = [
        AnswerStart(),
        ReasoningDelta(text="hm"),
        ReasoningSignature(signature="s"),
        TextDelta(text="so"),
        AnswerEnd(),
    ]
    answer = anthropic_writer(asked, streamed=stream).write(said)
    blocks = blocks_of(checked_events(answer)) if stream else checked_message(answer)["content"]
    assert {"type": "thinking", "thinking": "", "signature": "s"} == blocks[0]


ENDS = [
    ("stop", None, "end_turn"),
    ("stop", "###", "stop_sequence"),
    ("length", None, "max_tokens"),
    ("tool_calls", None, "tool_use"),
    ("content_filter", None, "refusal"),
    ("insufficient_system_resource", None, "insufficient_system_resource"),
]


@pytest.mark.parametrize(("reason", "sequence", "expected"), ENDS)
def test_why_it_ended(reason: str, sequence: str | None, expected: str) -> None:
    """A cut, filtered or unknown end never looks like a normal one; the string that stopped it is named."""
    finish = ChoiceFinish(reason=reason, stop_sequence=sequence)
    writer = anthropic_writer(ASKED, streamed=True)
    message = json.loads(
        anthropic_writer(ASKED, streamed=False).write([AnswerStart(), TextDelta(text="x"), finish, AnswerEnd()])
    )
    events = writer.write([AnswerStart(), TextDelta(text="x"), finish, AnswerEnd()]).split(b"\n\n")
    delta = json.loads(events[-3].partition(b"data: ")[2])["delta"]
    assert (expected, sequence) == (message["stop_reason"], message["stop_sequence"])
    assert (expected, sequence) == (delta["stop_reason"], delta["stop_sequence"])


def test_who_declines_has_not_finished() -> None:
    """OpenAI ends a refusal with ``stop``: Anthropic has a word for it."""
    message = whole(RefusalDelta(text="No."), ChoiceFinish(reason="stop"))
    assert ("refusal", "No.") == (message["stop_reason"], message["content"][0]["text"])


def test_the_input_leaves_out_what_the_cache_did() -> None:
    """Each count is told once, in the last event but one; the first says what is known by then."""
    expected = {
        "input_tokens": 5,
        "cache_creation_input_tokens": 2,
        "cache_read_input_tokens": 3,
        "output_tokens": 4,
        "output_tokens_details": {"thinking_tokens": 1},
    }
    deltas = (TextDelta(text="x"), ChoiceFinish(reason="stop"), UsageReport(usage=COUNTS))
    told = {name: count for name, count in whole(*deltas)["usage"].items() if count is not None}
    assert [expected, expected] == [told, streamed(*deltas)[-2]["usage"]]


def test_counts_that_nobody_made_are_marked() -> None:
    """Anthropic's clients expect some: they get the usual length of a token, and can see it."""
    usage = whole(TextDelta(text="x" * 9), ChoiceFinish(reason="stop"))["usage"]
    assert (10, 3, True) == (usage["input_tokens"], usage["output_tokens"], usage["estimated"])


def test_arguments_that_are_no_object_are_told_as_they_are() -> None:
    """A tool refuses them by its schema, and the model reads what it wrote."""
    call = (ToolCallStart(index=0, id="a", name="f"), ToolCallArguments(index=0, text="{bad"))
    assert {"malformed_arguments": "{bad"} == whole(*call, ChoiceFinish(reason="tool_calls"))["content"][0]["input"]


def test_a_call_that_is_over_cannot_go_on() -> None:
    """It has been closed: more of it would run another call with the wrong input."""
    writer = anthropic_writer(ASKED, streamed=True)
    writer.write([AnswerStart(), ToolCallStart(index=0, id="a", name="f"), ToolCallArguments(index=0, text="{}")])
    writer.write([ToolCallStart(index=1, id="b", name="f")])
    with pytest.raises(UpstreamInvalid):
        writer.write([ToolCallArguments(index=0, text="{}")])


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
OBJECTS = st.dictionaries(TEXTS, st.integers() | TEXTS, max_size=3).map(lambda it: json.dumps(it, ensure_ascii=False))


@st.composite
def outputs(draw: st.DrawFn) -> list[Delta]:
    """What a model may say: thoughts, texts and calls, the calls' arguments in pieces that may be mixed."""
    deltas: list[Delta] = []
    pieces: list[list[Delta]] = []
    for index, kind in enumerate(draw(st.lists(st.sampled_from(["text", "thought", "sealed", "call"]), max_size=6))):
        if kind == "text":
            deltas.append(TextDelta(text=draw(TEXTS)))
        elif kind == "thought":
            deltas += [ReasoningDelta(text=draw(TEXTS)), ReasoningSignature(signature=draw(TEXTS.filter(bool)))]
        elif kind == "sealed":
            deltas.append(RedactedReasoning(data=draw(TEXTS)))
        else:
            text, cut = draw(OBJECTS), draw(st.integers(0, 20))
            pieces.append(
                [
                    ToolCallStart(index=len(pieces), id=f"call_{index}", name="f"),
                    *(ToolCallArguments(index=len(pieces), text=it) for it in (text[:cut], text[cut:]) if it),
                ]
            )
    starts = [it[0] for it in pieces]
    rest = draw(st.permutations([at for at, it in enumerate(pieces) for _ in it[1:]]))
    queues = [list(it[1:]) for it in pieces]
    return [*deltas, *starts, *(queues[at].pop(0) for at in rest)]


@settings(max_examples=50)
@given(outputs())
def test_nothing_that_was_said_is_lost(deltas: Sequence[Delta]) -> None:
    """Streamed, whole and read again: the texts, thoughts and calls are those that went in, and the grammar holds."""
    blocks = both(*deltas, ChoiceFinish(reason="stop"))
    said = "".join(it.text for it in deltas if isinstance(it, TextDelta))
    assert said == "".join(block["text"] for block in blocks if block["type"] == "text")
    calls = [it for it in deltas if isinstance(it, ToolCallStart)]
    written = {it.index: "" for it in calls}
    for delta in deltas:
        if isinstance(delta, ToolCallArguments):
            written[delta.index] += delta.text
    told = [(block["id"], block["input"]) for block in blocks if block["type"] == "tool_use"]
    assert sorted((it.id, json.loads(written[it.index])) for it in calls) == sorted(told, key=lambda it: it[0])
    seals = [it.signature for it in deltas if isinstance(it, ReasoningSignature)]
    assert seals == [block["signature"] for block in blocks if block["type"] == "thinking"]


@settings(max_examples=50)
@given(outputs(), st.integers(1, 40))
def test_reading_undoes_writing(deltas: Sequence[Delta], cut: int) -> None:
    """However the bytes are cut, the second stream is the first one."""
    answer = [AnswerStart(id="x", model="m"), *deltas, ChoiceFinish(reason="stop"), AnswerEnd()]
    first = anthropic_writer(ASKED, streamed=True).write(answer)
    reader = anthropic_reader(streamed=True)
    read = [it for at in range(0, len(first), cut) for it in reader.feed(first[at : at + cut])]
    again = anthropic_writer(ASKED, streamed=True).write([*read, *reader.end()])
    assert blocks_of(checked_events(first)) == blocks_of(checked_events(again))


def test_text_without_citations_has_an_empty_list_of_them() -> None:
    """The schema wants the field, and Vercel's AI SDK takes no null for it."""
    deltas = (TextDelta(text="ok"), ChoiceFinish(reason="stop"))
    assert [{"type": "text", "text": "ok", "citations": []}] == whole(*deltas)["content"]
