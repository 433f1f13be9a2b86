"""Deltas as answers of OpenAI's completions."""

import json

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
    RefusalDelta,
    TextDelta,
    ToolCallStart,
    UsageReport,
)
from gateway.wire.formats import FORMATS
from gateway.wire.writers import WRITERS
from tests.unit.gateway.wire.ollama_calls import STREAMED, WHOLE, request_of

USAGE = Usage(prompt_tokens=3, output_tokens=2)
SAID: list[Delta] = [
    AnswerStart(model="m-1"),
    ReasoningDelta(text="It "),
    TextDelta(text="is"),
    RefusalDelta(text="."),
    ChoiceFinish(reason="length", stop_sequence="x"),
    UsageReport(usage=USAGE),
    AnswerEnd(),
]


def test_a_whole_answer_is_text() -> None:
    """A completion has no other part: whatever a server took for thoughts is text, too."""
    request = request_of(Operation.COMPLETION)
    body = WRITERS[Operation.COMPLETION](request, WHOLE).write(SAID)
    view = FORMATS[Operation.COMPLETION].whole(request)
    assert body == view.take(body)
    answer = json.loads(body)
    assert ("It is.", "length", "text_completion") == (
        answer["choices"][0]["text"],
        answer["choices"][0]["finish_reason"],
        answer["object"],
    )
    assert ("m-1", USAGE, "cmpl-r") == (view.model, view.usage, answer["id"])


def test_a_stream_is_text() -> None:
    """Piece by piece; the view keeps the counts from who did not ask for them."""
    request = request_of(Operation.COMPLETION, stream=True)
    writer = WRITERS[Operation.COMPLETION](request, STREAMED)
    sent = b"".join(writer.write([delta]) for delta in SAID)
    view = FORMATS[Operation.COMPLETION].stream(request)
    shown = view.feed(sent) + view.end()
    events = [json.loads(event[6:]) for event in shown.split(b"\n\n") if event.startswith(b"data: {")]
    assert "It is." == "".join(event["choices"][0]["text"] for event in events)
    assert (USAGE, "length", True) == (view.usage, view.finish_reason, view.done)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_call_has_no_place_in_a_completion(streamed: bool) -> None:
    """It is no answer to what was asked."""
    writer = WRITERS[Operation.COMPLETION](request_of(Operation.COMPLETION), streamed)
    with pytest.raises(UpstreamInvalid):
        writer.write([AnswerStart(), ToolCallStart(index=0, id="a", name="f")])
