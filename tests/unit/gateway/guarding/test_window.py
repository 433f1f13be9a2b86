"""What windows let through of streams: the same as a look at the whole text, however it was cut."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.guard import CannotSay
from gateway.guarding.window import Window
from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.wire.guarded_formats import STREAM_TEXTS
from gateway.wire.sse import SseEvent
from gateway.wire.stream_texts import Passing, StreamTexts
from policies.guard.pattern import Pattern

PATTERNS = ("ab{1,3}c", r"\bxy?\b", "(?i)Été", "^q", "zz$", "ca", "é{2,3}")
ALPHABET = "abcxyzqé \nÉtE"
GUARD = Pattern(patterns=PATTERNS, action="redact", replacement="<c>")

texts = st.text(st.sampled_from(ALPHABET), max_size=40) | st.lists(
    st.sampled_from(["abc", "abbbc", "abbbbc", "xy", "x", " ", "été", "q", "zz", "ca", "ééé", "a", "é"]), max_size=14
).map("".join)


ARRIVAL = Arrival(
    id="req-1",
    operation=Operation.CHAT,
    tenant="acme",
    received_s=0.0,
    received_unix_s=0.0,
    trace=TraceContext(trace_id="0" * 31 + "1", span_id="0" * 15 + "1"),
)


def found(operation: Operation) -> StreamTexts:
    """What finds the texts of a format's streams."""
    return STREAM_TEXTS[operation](ChatRequest(arrival=replace(ARRIVAL, operation=operation), model="small"))


def whole(text: str) -> str:
    """The text after one look at all of it."""
    out, at = "", 0
    for begin, end, instead in GUARD.spans(text, 0):
        out, at = out + text[at:begin] + instead, end
    return out + text[at:]


@st.composite
def cut(draw: st.DrawFn, text: str) -> list[str]:
    """The text in pieces, some of them empty."""
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[begin:end] for begin, end in zip([0, *places], [*places, len(text)], strict=True)]


def _event(data: Any, name: str = "") -> SseEvent:
    return SseEvent(name.encode(), data if isinstance(data, bytes) else msgspec.json.encode(data))


def chat(pieces: Sequence[tuple[int, str, str]]) -> Iterator[SseEvent]:
    """A chat of several choices: each piece is of a choice, and of its thoughts or its text."""
    choices = sorted({choice for choice, _, _ in pieces} | {0})
    for choice in choices:
        yield _event({"id": "c", "choices": [{"index": choice, "delta": {"role": "assistant", "content": ""}}]})
    for choice, field, text in pieces:
        yield _event({"id": "c", "choices": [{"index": choice, "delta": {field: text}, "logprobs": None}]})
    for choice in choices:
        yield _event({"id": "c", "choices": [{"index": choice, "delta": {}, "finish_reason": "stop"}]})
    yield _event({"id": "c", "choices": [], "usage": {"total_tokens": 3}})
    yield _event(b"[DONE]")


def messages(blocks: Sequence[tuple[str, list[str]]]) -> Iterator[SseEvent]:
    """A message with blocks of text and thoughts."""
    yield _event({"type": "message_start", "message": {"content": []}}, "message_start")
    for index, (kind, pieces) in enumerate(blocks):
        block = {"type": kind, kind: ""}
        yield _event({"type": "content_block_start", "index": index, "content_block": block}, "content_block_start")
        for text in pieces:
            delta = {"type": f"{kind}_delta", kind: text}
            yield _event({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")
        yield _event({"type": "content_block_stop", "index": index}, "content_block_stop")
    yield _event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, "message_delta")
    yield _event({"type": "message_stop"}, "message_stop")


def response(pieces: list[str]) -> Iterator[SseEvent]:
    """A response with one text, which is told four times."""
    text = "".join(pieces)
    part = {"type": "output_text", "text": text, "logprobs": []}
    item = {"type": "message", "role": "assistant", "content": [part]}
    place = {"output_index": 0, "content_index": 0}
    fields: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        *({"type": "response.output_text.delta", **place, "delta": piece} for piece in pieces),
        {"type": "response.output_text.done", **place, "text": text},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"output": [item]}},
    ]
    for event in fields:
        yield _event(event, event["type"])


class Out:
    """What came out of a window, event by event, and when."""

    def __init__(self, texts: StreamTexts, events: Iterator[SseEvent], guard: Pattern = GUARD, **bounds: Any) -> None:
        self.hits = 0
        window = Window(guard, hit=self._hit, replaces=True, **{"most_bytes": 1 << 20, **bounds})
        self.events: list[Passing] = []
        self.came: list[SseEvent] = []
        for event in events:
            self.came.append(event)
            self.events += window.feed(texts.passing(event))
        self.events += window.end()

    def _hit(self) -> None:
        self.hits += 1

    def said(self, *path: str | int) -> str:
        """The texts at a path of the events that have it, one after the other."""
        found = []
        for event in self.events:
            try:
                value = msgspec.json.decode(event.data)
                for step in path:
                    value = value[step]
            except (msgspec.DecodeError, KeyError, IndexError, TypeError):
                continue
            found.append(value)
        return "".join(found)


def _bare(data: bytes) -> Any:
    """An event without its texts."""
    try:
        return _without_texts(msgspec.json.decode(data))
    except msgspec.DecodeError:
        return data


def _without_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_texts(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_texts(inner) for inner in value]
    return "" if isinstance(value, str) else value


def _nothing_is_lost(out: Out) -> bool:
    return [_bare(event.data) for event in out.came] == [_bare(passing.data) for passing in out.events]


@given(data=st.data(), first=texts, second=texts)
def test_choices_of_a_chat_say_what_the_whole_would(data: st.DataObject, first: str, second: str) -> None:
    """Two choices that grow side by side, cut anywhere; every event goes on, in its order."""
    queues = [[(0, "content", piece) for piece in data.draw(cut(first))]]
    queues.append([(1, "content", piece) for piece in data.draw(cut(second))])
    pieces = []
    while any(queues):
        queue = queues[data.draw(st.integers(0, 1))] or queues[0] or queues[1]
        pieces.append(queue.pop(0))
    out = Out(found(Operation.CHAT), chat(pieces))
    by_choice = {0: "", 1: ""}
    for passing in out.events[:-1]:
        for choice in msgspec.json.decode(passing.data)["choices"]:
            by_choice[choice["index"]] += choice["delta"].get("content", "")
    assert {0: whole(first), 1: whole(second)} == by_choice
    assert _nothing_is_lost(out)


@given(data=st.data(), thoughts=texts, said=texts)
def test_thoughts_and_text_are_each_a_text_of_their_own(data: st.DataObject, thoughts: str, said: str) -> None:
    """A match does not begin in one and end in the other."""
    pieces = [(0, "reasoning_content", piece) for piece in data.draw(cut(thoughts))]
    pieces += [(0, "content", piece) for piece in data.draw(cut(said))]
    out = Out(found(Operation.CHAT), chat(pieces))
    delta = ("choices", 0, "delta")
    assert (whole(thoughts), whole(said)) == (out.said(*delta, "reasoning_content"), out.said(*delta, "content"))
    assert _nothing_is_lost(out)


@given(data=st.data(), contents=st.lists(st.tuples(st.sampled_from(["text", "thinking"]), texts), max_size=3))
def test_blocks_of_a_message_say_what_the_whole_would(data: st.DataObject, contents: list[tuple[str, str]]) -> None:
    """Each block is a text."""
    blocks = [(kind, data.draw(cut(text))) for kind, text in contents]
    out = Out(found(Operation.MESSAGES), messages(blocks))
    for kind in ("text", "thinking"):
        assert "".join(whole(text) for known, text in contents if known == kind) == out.said("delta", kind)
    assert _nothing_is_lost(out)


@given(data=st.data(), text=texts)
def test_a_response_says_the_same_each_time_that_it_says_it(data: st.DataObject, text: str) -> None:
    """In its deltas, where a text is over, where a part is, where an item is, and in the whole."""
    out = Out(found(Operation.RESPONSE), response(data.draw(cut(text))))
    expected = whole(text)
    assert [expected] * 5 == [
        out.said("delta"),
        out.said("text"),
        out.said("part", "text"),
        out.said("item", "content", 0, "text"),
        out.said("response", "output", 0, "content", 0, "text"),
    ]
    assert _nothing_is_lost(out)


values = st.recursive(
    texts | st.integers(0, 99) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("klm"), inner, max_size=3),
    max_leaves=5,
)


@given(data=st.data(), arguments=st.dictionaries(st.sampled_from("uvw"), values, max_size=3))
def test_arguments_stay_json_and_each_value_is_a_text(data: st.DataObject, arguments: dict[str, Any]) -> None:
    """Whatever stands in them, with its escapes undone."""
    text = msgspec.json.encode(arguments).decode()
    pieces = data.draw(cut(text))
    deltas = [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
    events = [_event({"choices": [{"index": 0, "delta": delta}]}) for delta in deltas]
    events += [_event({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})]
    out = Out(found(Operation.CHAT), iter(events))
    said = out.said("choices", 0, "delta", "tool_calls", 0, "function", "arguments")
    assert _each(arguments) == msgspec.json.decode(said)
    assert _nothing_is_lost(out)


def _each(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _each(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_each(inner) for inner in value]
    return whole(value) if isinstance(value, str) else value


def test_numbers_in_arguments_are_seen_too() -> None:
    """What stands in their place is a string, and the arguments are JSON still."""
    guard = Pattern(patterns=("[0-9]{16}",), action="redact", replacement='"quoted"')
    event = {"index": 0, "function": {"arguments": '{"card": 4111111111111111, "n": 3}'}}
    events = [_event({"choices": [{"index": 0, "delta": {"tool_calls": [event]}}]}), _event(b"[DONE]")]
    out = Out(found(Operation.CHAT), iter(events), guard)
    said = out.said("choices", 0, "delta", "tool_calls", 0, "function", "arguments")
    assert {"card": '"quoted"', "n": 3} == msgspec.json.decode(said)


@given(data=st.data(), text=st.text(st.sampled_from("ab c"), min_size=20, max_size=80))
def test_no_more_is_held_back_than_a_match_is_long(data: st.DataObject, text: str) -> None:
    """Whatever came before is out."""
    guard = Pattern(patterns=("a{1,4}b",), action="redact")
    window = Window(guard, hit=lambda: None, replaces=True, most_bytes=1 << 20)
    texts_of = found(Operation.CHAT)
    came, out = 0, []
    for event in chat([(0, "content", piece) for piece in data.draw(cut(text))]):
        passing = texts_of.passing(event)
        came += sum(len(growth.old) for growth in passing.growths)
        longest_piece = max((len(growth.old) for growth in passing.growths), default=0)
        before = len(out)
        out += window.feed(passing)
        held = [growth for waiting in window._held for growth in waiting.growths]
        assert sum(len(growth.old) for growth in held[1:]) <= 5 + longest_piece
        assert before <= len(out)


def test_what_is_not_changed_goes_on_byte_for_byte() -> None:
    """The events are those that came, blanks and all."""
    data = b'{"id": "c",  "choices": [{"index": 0, "delta": {"content": "nothing here"}, "x": 1.50}]}'
    out = Out(found(Operation.CHAT), iter([_event(data), _event(b"[DONE]")]))
    assert [data, b"[DONE]"] == [passing.data for passing in out.events]


def test_tokens_do_not_tell_what_was_replaced() -> None:
    """The log-probabilities of an event hold its text again."""
    event = {"choices": [{"index": 0, "delta": {"content": "ca"}, "logprobs": {"content": [{"token": "ca"}]}}]}
    out = Out(found(Operation.CHAT), iter([_event(event), _event(b"[DONE]")]))
    assert {"index": 0, "delta": {"content": "<c>"}, "logprobs": None} == msgspec.json.decode(out.events[0].data)[
        "choices"
    ][0]


def test_more_than_may_be_held_back_is_said() -> None:
    """Arguments wait for their end, and are bounded."""
    piece = {"tool_calls": [{"index": 0, "function": {"arguments": "x" * 100}}]}
    events = [_event({"choices": [{"index": 0, "delta": piece}]}) for _ in range(10)]
    with pytest.raises(CannotSay):
        Out(found(Operation.CHAT), iter(events), most_bytes=500)
