import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from gateway.conversation import LastEvent, Remembered
from gateway.errors import InvalidRequest, UpstreamInvalid, UpstreamTruncated
from gateway.price import Usage
from gateway.types import ChatRequest, Operation
from gateway.wire.deltas import (
    AnswerEnd,
    AnswerStart,
    ChoiceFinish,
    Delta,
    ReasoningDelta,
    ReasoningSignature,
    RefusalDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
    UsageReport,
)
from gateway.wire.responses_format import ResponsesFormat
from gateway.wire.responses_writer import ResponsesStreamWriter, responses_writer

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
FORMAT = ResponsesFormat()
USAGE = Usage(prompt_tokens=9, output_tokens=4, cached_tokens=5, reasoning_tokens=1)
ANSWER: Sequence[Delta] = (
    AnswerStart(id="x", model="served"),
    ReasoningDelta(text="let me"),
    ReasoningDelta(text=" see"),
    ReasoningSignature(signature="s"),
    TextDelta(text="He"),
    TextDelta(text="y"),
    RefusalDelta(text="no"),
    ToolCallStart(index=0, id="c0", name="f"),
    ToolCallStart(index=1, id="c1", name="g"),
    ToolCallArguments(index=1, text="{"),
    ToolCallArguments(index=0, text="{}"),
    ToolCallArguments(index=1, text="}"),
    ChoiceFinish(reason="tool_calls"),
    UsageReport(usage=USAGE),
    AnswerEnd(),
)


@pytest.fixture(scope="session")
def asked(make_request: Callable[..., ChatRequest]) -> Callable[..., ChatRequest]:
    """A request of Responses that was read from a body."""
    arrival = make_request(operation=Operation.RESPONSE, request_id="req_1").arrival

    def asks(**body: Any) -> ChatRequest:
        return FORMAT.read(arrival, json.dumps({"model": "m", "input": "hi", **body}).encode())

    return asks


def stream_of(request: ChatRequest, deltas: Sequence[Delta]) -> bytes:
    """What a client that streams gets."""
    return responses_writer(request, streamed=True).write(deltas)


def whole_of(request: ChatRequest, deltas: Sequence[Delta]) -> bytes:
    """What a client that waits gets."""
    return responses_writer(request, streamed=False).write(deltas)


def events(data: bytes) -> list[dict[str, Any]]:
    """The data of each event; its name is its type."""
    out = []
    for block in data.decode().strip().split("\n\n"):
        name, fields = block.split("\n")
        out.append(json.loads(fields.removeprefix("data: ")))
        assert name.removeprefix("event: ") == out[-1]["type"]
    return out


def test_every_event_is_one_that_openais_client_reads(asked: Callable[..., ChatRequest]) -> None:
    """All of them are valid after the official types, and are numbered without a gap."""
    written = events(stream_of(asked(stream=True), ANSWER))
    for event in written:
        EVENT.validate_python(event)
    assert list(range(len(written))) == [event["sequence_number"] for event in written]


def test_an_item_is_opened_grows_and_is_closed(asked: Callable[..., ChatRequest]) -> None:
    """The order of events is OpenAI's."""
    deltas = (AnswerStart(), TextDelta(text="a"), TextDelta(text="b"), ChoiceFinish(reason="stop"), AnswerEnd())
    written = events(stream_of(asked(stream=True), deltas))
    assert [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ] == [event["type"] for event in written]


def test_streamed_and_whole_are_the_same_response(asked: Callable[..., ChatRequest]) -> None:
    """The last event of a stream holds what a whole answer is."""
    request = asked()
    whole = json.loads(whole_of(request, ANSWER))
    streamed = events(stream_of(request, ANSWER))[-1]["response"]
    assert whole | {"completed_at": 0} == streamed | {"completed_at": 0}
    response = Response.model_validate(whole)
    assert ("resp_1", "served", "completed") == (response.id, response.model, response.status)
    assert ["reasoning", "message", "function_call", "function_call"] == [item.type for item in response.output]
    assert ["{}", "{}"] == [item["arguments"] for item in whole["output"][2:]]


def test_cut_anywhere_the_stream_is_the_same(asked: Callable[..., ChatRequest]) -> None:
    """What comes in one read goes out in one write, and says the same in any pieces."""
    at_once = stream_of(asked(), ANSWER[:-1])
    writer = ResponsesStreamWriter(asked())
    assert at_once == b"".join(writer.write([delta]) for delta in ANSWER[:-1])


def test_the_answer_repeats_the_request(asked: Callable[..., ChatRequest]) -> None:
    """Settings as the client gave them, and the usual ones where it gave none."""
    request = asked(temperature=0.25, instructions="be brief", metadata={"k": "v"}, store=False)
    whole = json.loads(whole_of(request, ANSWER))
    assert (0.25, "be brief", {"k": "v"}, False, 1.0, "disabled") == tuple(
        whole[name] for name in ("temperature", "instructions", "metadata", "store", "top_p", "truncation")
    )


@pytest.mark.parametrize(
    ("reason", "status", "why"),
    [
        ("stop", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
        ("function_call", "completed", None),
        ("of_tomorrow", "incomplete", "of_tomorrow"),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
def test_an_answer_that_was_cut_says_so(
    asked: Callable[..., ChatRequest], reason: str, status: str, why: str | None, streamed: bool
) -> None:
    """A stream ends with the event of its status."""
    deltas = (AnswerStart(), TextDelta(text="a"), ChoiceFinish(reason=reason), AnswerEnd())
    data = (stream_of if streamed else whole_of)(asked(), deltas)
    response = events(data)[-1]["response"] if streamed else json.loads(data)
    assert (status, why) == (response["status"], (response["incomplete_details"] or {}).get("reason"))
    assert status == response["output"][-1]["status"]


def test_thoughts_are_told_as_a_word_where_the_client_asks(asked: Callable[..., ChatRequest]) -> None:
    """What comes back in the next turn is the thought that its provider signed."""
    whole = json.loads(whole_of(asked(include=["reasoning.encrypted_content"]), ANSWER))
    thought = whole["output"][0]
    again = asked(input=[thought, {"role": "user", "content": "go on"}])
    assert again.translation is not None
    (turn, _) = json.loads(bytes(again.translation().fields["messages"]))
    assert [{"type": "thinking", "thinking": "let me see", "signature": "s"}] == turn["thinking_blocks"]
    assert "encrypted_content" not in json.loads(whole_of(asked(), ANSWER))["output"][0]


def test_a_tool_of_a_namespace_is_called_by_both_its_names(asked: Callable[..., ChatRequest]) -> None:
    """As the client offered it."""
    tools = [{"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "close"}]}]
    deltas = (AnswerStart(), ToolCallStart(index=0, id="c", name="agents__close"), AnswerEnd())
    (item,) = json.loads(whole_of(asked(tools=tools), deltas))["output"]
    assert ("close", "agents") == (item["name"], item["namespace"])


@pytest.mark.parametrize("streamed", [True, False])
def test_a_look_sees_what_was_written(asked: Callable[..., ChatRequest], streamed: bool) -> None:
    """Usage, reason and model are read, and the bytes pass as they are."""
    kept: list[bytes] = []
    request = asked(stream=streamed)
    request = replace(request, remembered=Remembered(last=LastEvent(), keep=kept.append))
    data = (stream_of if streamed else whole_of)(request, ANSWER)
    view = FORMAT.stream(request) if streamed else FORMAT.whole(request)
    assert data == (view.feed(data) if streamed else view.take(data))
    assert (USAGE, "tool_calls", "served", 19) == (view.usage, view.finish_reason, view.model, view.output_bytes)
    assert ["resp_1"] == [json.loads(body)["id"] for body in kept]


def test_nothing_is_visible_before_the_first_delta(asked: Callable[..., ChatRequest]) -> None:
    """The opening may be held back, so that another backend can take over."""
    data = stream_of(asked(), ANSWER)
    at = data.index(b"event: response.reasoning_summary_text.delta")
    view = FORMAT.stream(asked())
    view.feed(data[:at])
    assert not view.visible
    view.feed(data[at:])
    assert view.visible


def test_a_stream_without_its_end_is_truncated(asked: Callable[..., ChatRequest]) -> None:
    """Only the response that is whole is an end."""
    data = stream_of(asked(), ANSWER)
    view = FORMAT.stream(asked())
    view.feed(data[: data.index(b"event: response.completed")])
    with pytest.raises(UpstreamTruncated):
        view.end()
    with pytest.raises(UpstreamInvalid):
        FORMAT.stream(asked()).end()


@pytest.mark.parametrize(
    "event",
    [
        b'event: error\ndata: {"type":"error","code":"server_error","message":"too hot","param":null}\n\n',
        b'event: response.failed\ndata: {"type":"response.failed","response":{"error":{"message":"too hot"}}}\n\n',
    ],
)
def test_an_error_in_the_stream_is_told(asked: Callable[..., ChatRequest], event: bytes) -> None:
    """In either of its two shapes."""
    view = FORMAT.stream(asked())
    assert b"" == view.feed(event)
    assert view.error is not None
    assert "too hot" == view.error.message


def test_an_error_of_ours_is_an_event_that_openais_client_reads() -> None:
    """The words stand at the top."""
    (event,) = events(FORMAT.error_event(InvalidRequest("no", param="input")))
    EVENT.validate_python(event)
    assert ("error", "no", "input", "invalid_request") == tuple(
        event[name] for name in ("type", "message", "param", "code")
    )
