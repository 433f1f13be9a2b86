"""Deltas as Ollama's answers."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gateway.errors import UpstreamInvalid
from gateway.price import Usage
from gateway.types import Operation
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
from gateway.wire.formats import FORMATS
from gateway.wire.ollama_writer import ollama_writer
from tests.unit.gateway.wire.ollama_calls import STREAMED, WHOLE, request_of

CHAT, GENERATE = Operation.OLLAMA_CHAT, Operation.OLLAMA_GENERATE
START, STOP, END = AnswerStart(model="m-1"), ChoiceFinish(reason="stop"), AnswerEnd()
USAGE = Usage(prompt_tokens=9, output_tokens=4, cached_tokens=3, reasoning_tokens=1)
COUNTED = UsageReport(usage=USAGE)
CALLS: list[Delta] = [
    ToolCallStart(index=0, id="a", name="f"),
    ToolCallStart(index=1, id="b", name="g"),
    ToolCallArguments(index=1, text='{"y":'),
    ToolCallArguments(index=0, text='{"x":1}'),
    ToolCallArguments(index=1, text="2}"),
]


class Clock:
    """A second goes by each time that somebody looks."""

    def __init__(self, at_s: float) -> None:
        self.at_s = at_s

    def __call__(self) -> float:
        """The time."""
        self.at_s += 1
        return self.at_s


def lines_of(operation: Operation, *deltas: Delta, now_s: Callable[[], float] = lambda: 10.0, **fields: Any) -> Any:
    """The lines of a stream, which its own view takes for a whole answer."""
    request = request_of(operation, **fields)
    writer = ollama_writer(now_s)(request, STREAMED)
    sent = b"".join(writer.write([delta]) for delta in deltas)
    view = FORMATS[operation].stream(request)
    assert sent == view.feed(sent) + view.end()
    return [msgspec.json.decode(line) for line in sent.splitlines()]


def whole_of(operation: Operation, *deltas: Delta, now_s: Callable[[], float] = lambda: 10.0) -> Any:
    """A whole answer, likewise."""
    request = request_of(operation, stream=False)
    body = ollama_writer(now_s)(request, WHOLE).write(deltas)
    assert body == FORMATS[operation].whole(request).take(body)
    return msgspec.json.decode(body)


def test_a_chat_comes_in_lines() -> None:
    """Each with the model and the moment; the last has the reason and the counts, and what Ollama has no field for."""
    first, last = lines_of(CHAT, START, TextDelta(text="It"), STOP, COUNTED, END)
    head = {"model": "m-1", "created_at": "2001-09-09T01:46:40.000000Z"}
    assert {**head, "message": {"role": "assistant", "content": "It"}, "done": False} == first
    assert {**head, "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"} == {
        name: last[name] for name in ("model", "created_at", "message", "done", "done_reason")
    }
    assert (9, 4) == (last["prompt_eval_count"], last["eval_count"])
    assert {"cached_tokens": 3, "reasoning_tokens": 1} == last["headrace"]


def test_a_generation_comes_in_lines() -> None:
    """Its text beside the thoughts."""
    lines = lines_of(GENERATE, START, ReasoningDelta(text="hm"), TextDelta(text="It"), STOP, COUNTED, END)
    assert [("", "hm"), ("It", None), ("", None)] == [(line["response"], line.get("thinking")) for line in lines]


def test_a_stream_is_timed_on_the_gateways_clock() -> None:
    """From the knock to the attempt, to the first output, to the end: in nanoseconds."""
    last = lines_of(CHAT, START, TextDelta(text="It"), STOP, COUNTED, END, now_s=Clock(11.0))[-1]
    second = 1_000_000_000
    # looked at: 12 the attempt, 13 the first output, 14 its line, 15 the durations
    durations = {"total_duration": 5, "load_duration": 2, "prompt_eval_duration": 1}
    assert {name: seconds * second for name, seconds in durations.items()} == {name: last[name] for name in durations}
    assert last["eval_duration"] == last["total_duration"] - 3 * second


def test_a_whole_answer_does_not_say_when_it_began() -> None:
    """All of the attempt is the time in which it was made."""
    answer = whole_of(CHAT, START, TextDelta(text="It"), STOP, COUNTED, END, now_s=Clock(11.0))
    assert "prompt_eval_duration" not in answer
    assert answer["total_duration"] - answer["load_duration"] == answer["eval_duration"] > 0


def test_a_whole_answer_is_all_of_it() -> None:
    """Texts, thoughts and calls, each joined."""
    said = [ReasoningDelta(text="h"), ReasoningDelta(text="m"), TextDelta(text="It "), TextDelta(text="is")]
    chat = whole_of(CHAT, START, *said, *CALLS, ChoiceFinish(reason="tool_calls"), COUNTED, END)
    assert ("It is", "hm", ["f", "g"]) == (
        chat["message"]["content"],
        chat["message"]["thinking"],
        [call["function"]["name"] for call in chat["message"]["tool_calls"]],
    )
    assert (True, "stop") == (chat["done"], chat["done_reason"])
    generation = whole_of(GENERATE, START, *said, STOP, COUNTED, END)
    assert ("It is", "hm") == (generation["response"], generation["thinking"])


def test_calls_are_told_whole_as_soon_as_they_are() -> None:
    """However their pieces came; their arguments are objects."""
    lines = lines_of(CHAT, START, *CALLS, ChoiceFinish(reason="tool_calls"), COUNTED, END)
    calls = [line["message"]["tool_calls"] for line in lines[:-1]]
    assert [
        [{"id": "a", "function": {"index": 0, "name": "f", "arguments": {"x": 1}}}],
        [{"id": "b", "function": {"index": 1, "name": "g", "arguments": {"y": 2}}}],
    ] == calls


@pytest.mark.parametrize(
    ("text", "arguments"), [("", {}), (" ", {}), ("[1", {"malformed_arguments": "[1"}), ("[1]", None)]
)
def test_what_a_model_wrote_in_place_of_arguments_is_told(text: str, arguments: Any) -> None:
    """None at all are an empty object; what is no object stands in one."""
    start = ToolCallStart(index=0, id="a", name="f")
    *_, line, _ = lines_of(CHAT, START, start, ToolCallArguments(index=0, text=text), STOP, COUNTED, END)
    (call,) = line["message"]["tool_calls"]
    assert call["function"]["arguments"] == ({"malformed_arguments": text} if arguments is None else arguments)


def test_a_call_that_was_told_does_not_go_on() -> None:
    """Blanks mean nothing."""
    blank, more = ToolCallArguments(index=0, text=" \n"), ToolCallArguments(index=0, text="{}")
    assert lines_of(CHAT, START, CALLS[0], CALLS[3], blank, STOP, COUNTED, END)
    with pytest.raises(UpstreamInvalid):
        lines_of(CHAT, START, CALLS[0], CALLS[3], more)


def test_signed_thoughts_stand_beside_the_words() -> None:
    """In Anthropic's form, so that who keeps the message can give them back."""
    deltas = [ReasoningDelta(text="h"), ReasoningDelta(text="m"), ReasoningSignature(signature="s")]
    message = whole_of(CHAT, START, *deltas, RedactedReasoning(data="d"), STOP, COUNTED, END)["message"]
    signed = {"type": "thinking", "thinking": "hm", "signature": "s"}
    assert ("hm", [signed, {"type": "redacted_thinking", "data": "d"}]) == (
        message["thinking"],
        message["thinking_blocks"],
    )


@pytest.mark.parametrize(
    ("reason", "told"),
    [("stop", "stop"), ("length", "length"), ("tool_calls", "stop"), ("content_filter", "content_filter")],
)
def test_reasons_are_ollamas(reason: str, told: str) -> None:
    """A call is an end like any other to it."""
    assert told == lines_of(CHAT, START, ChoiceFinish(reason=reason), COUNTED, END)[-1]["done_reason"]


def test_words_in_which_a_model_declines_are_words() -> None:
    """There is no other place for them."""
    assert "no" == whole_of(CHAT, START, RefusalDelta(text="no"), STOP, COUNTED, END)["message"]["content"]


def test_log_probabilities_are_those_of_the_tokens() -> None:
    """OpenAI has them under one more name."""
    told = [{"token": "It", "logprob": -0.5, "bytes": [73, 116], "top_logprobs": []}]
    delta = TextDelta(text="It", logprobs={"content": told, "refusal": None})
    assert told == lines_of(CHAT, START, delta, STOP, COUNTED, END)[0]["logprobs"]
    assert told + told == whole_of(CHAT, START, delta, delta, STOP, COUNTED, END)["logprobs"]


def test_counts_that_nobody_made_are_estimated_and_marked() -> None:
    """The client gets some, and the meter is left to say that they are no upstream's."""
    request = request_of(CHAT)
    sent = ollama_writer(lambda: 10.0)(request, STREAMED).write([START, TextDelta(text="12345"), STOP, END])
    view = FORMATS[CHAT].stream(request)
    view.feed(sent)
    last = msgspec.json.decode(sent.splitlines()[-1])
    assert (1, 2, {"estimated": True}) == (last["prompt_eval_count"], last["eval_count"], last["headrace"])
    assert (None, True) == (view.usage, view.done)
