from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.conversation import FunctionCall, ToolCall
from gateway.judgement import Answer, Choice
from gateway.price import Usage
from gateway.types import Operation
from gateway.wire.answers import can_be_judged, read_answer
from gateway.wire.openai_answer import Answered, Called, StreamWriter, whole_answer

_JSON = msgspec.json.encode


def _stream(*chunks: Any) -> bytes:
    return b"".join(b"data: %b\n\n" % _JSON(chunk) for chunk in chunks) + b"data: [DONE]\n\n"


def _delta(index: int, **delta: Any) -> dict[str, Any]:
    return {"model": "small", "choices": [{"index": index, "delta": delta, "finish_reason": None}]}


def test_a_whole_chat_is_read_with_its_calls_and_counts() -> None:
    """All choices, in their order."""
    usage = Usage(prompt_tokens=3, output_tokens=5)
    calls = [Called("c1", "time", "{}")]
    choices = [Answered("one", "stop"), Answered("", "tool_calls", calls=calls)]
    body = whole_answer(Operation.CHAT, "id", "small", 0, choices, usage)
    called = ToolCall(id="c1", function=FunctionCall(name="time", arguments="{}"))
    expected = (
        Choice(text="one", finish_reason="stop"),
        Choice(text="", tool_calls=(called,), finish_reason="tool_calls"),
    )
    assert Answer(choices=expected, usage=usage, model="small") == read_answer(Operation.CHAT, body, streamed=False)


def test_a_whole_completion_is_read() -> None:
    """Its text is a field of the choice."""
    body = whole_answer(Operation.COMPLETION, "id", "small", 0, [Answered("one", "length")], Usage())
    answer = read_answer(Operation.COMPLETION, body, streamed=False)
    assert (Choice(text="one", finish_reason="length"),) == answer.choices


def test_a_stream_is_put_together_choice_by_choice() -> None:
    """However its pieces are mixed, tool calls by their index, and refusals apart."""
    data = _stream(
        _delta(1, content="t"),
        _delta(0, role="assistant", content=""),
        _delta(1, content="wo"),
        _delta(0, tool_calls=[{"index": 1, "id": "b", "function": {"name": "second", "arguments": "{"}}]),
        _delta(0, tool_calls=[{"index": 0, "id": "a", "function": {"name": "first", "arguments": ""}}]),
        _delta(0, tool_calls=[{"index": 1, "function": {"arguments": "}"}}]),
        _delta(2, refusal="No."),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    )
    answer = read_answer(Operation.CHAT, data, streamed=True)
    assert (["", "two", ""], ["", "", "No."], ["tool_calls", "", ""]) == (
        [choice.text for choice in answer.choices],
        [choice.refusal for choice in answer.choices],
        [choice.finish_reason for choice in answer.choices],
    )
    assert [("a", "first", ""), ("b", "second", "{}")] == [
        (call.id, call.function.name, call.function.arguments) for call in answer.choices[0].tool_calls
    ]
    assert (1, 2) == (answer.usage.prompt_tokens, answer.usage.output_tokens)


@pytest.mark.parametrize("operation", [Operation.CHAT, Operation.COMPLETION])
@given(texts=st.lists(st.lists(st.text(max_size=5), max_size=4), min_size=1, max_size=3))
def test_what_a_stream_says_is_what_a_whole_answer_says(operation: Operation, texts: list[list[str]]) -> None:
    """For any texts, cut anywhere."""
    writer = StreamWriter(operation, "id", "small", 0)
    pieces = [writer.text(at, text) for at, parts in enumerate(texts) for text in parts]
    ends = [writer.finish(at, "stop") for at in range(len(texts))]
    streamed = read_answer(operation, b"".join((*pieces, *ends, writer.done())), streamed=True)
    whole = whole_answer(operation, "id", "small", 0, [Answered("".join(parts), "stop") for parts in texts], Usage())
    assert read_answer(operation, whole, streamed=False).choices == streamed.choices


def test_the_old_way_to_call_a_function_is_a_call() -> None:
    """And content may be parts."""
    message = {
        "content": [{"type": "text", "text": "a"}, {"text": "b"}],
        "function_call": {"name": "f", "arguments": "1"},
    }
    body = _JSON({"choices": [{"message": message, "finish_reason": "function_call"}]})
    (choice,) = read_answer(Operation.CHAT, body, streamed=False).choices
    assert ("ab", "f", "1") == (
        choice.text,
        choice.tool_calls[0].function.name,
        choice.tool_calls[0].function.arguments,
    )


def test_an_answer_of_anthropics_format_is_read_through_the_hub() -> None:
    """Text, calls and the reason, in OpenAI's words."""
    content = [
        {"type": "text", "text": "It will rain."},
        {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Ulm"}},
    ]
    body = _JSON(
        {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "model": "claude",
            "content": content,
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 3, "output_tokens": 5},
        }
    )
    answer = read_answer(Operation.MESSAGES, body, streamed=False)
    (choice,) = answer.choices
    (call,) = choice.tool_calls
    assert ("It will rain.", "tool_calls", "weather", {"city": "Ulm"}, 5) == (
        choice.text,
        choice.finish_reason,
        call.function.name,
        msgspec.json.decode(call.function.arguments),
        answer.usage.output_tokens,
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "delta", "content", "tool_calls", "function", "index", "type", "error"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("operation", [operation for operation in Operation if can_be_judged(operation)])
@pytest.mark.parametrize("frame", [lambda data: data, lambda data: b"data: %b\n\n" % data])
@given(data=st.binary(max_size=60) | json_values.map(_JSON), streamed=st.booleans())
def test_what_is_no_answer_is_none_and_never_an_error(
    operation: Operation, frame: Callable[[bytes], bytes], data: bytes, streamed: bool
) -> None:
    """Whatever the bytes are."""
    answer = read_answer(operation, frame(data), streamed=streamed)
    assert answer is None or answer.choices


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", [None, 5, [], {}])
def test_an_item_whose_type_is_no_word_says_nothing(kind: Any, streamed: bool) -> None:
    """Of a response: what stands beside it is read."""
    said = {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}
    data = _JSON({"output": [{"type": kind}, said], "status": "completed"})
    event = b'event: response.completed\ndata: {"response":%b}\n\n' % data
    answer = read_answer(Operation.RESPONSE, event if streamed else data, streamed=streamed)
    assert answer is not None
    assert [("hi", "stop")] == [(choice.text, choice.finish_reason) for choice in answer.choices]


def test_what_has_nothing_to_say_is_not_judged() -> None:
    """A vector, a count of tokens."""
    assert not can_be_judged(Operation.EMBEDDING)
    assert not can_be_judged(Operation.COUNT_TOKENS)
    assert read_answer(Operation.EMBEDDING, b'{"data": []}', streamed=False) is None
