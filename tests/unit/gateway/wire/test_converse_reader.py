import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends._aws_event_stream import AwsEventParser
from gateway.errors import (
    UpstreamContextExceeded,
    UpstreamError,
    UpstreamFailed,
    UpstreamInvalid,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTruncated,
    UpstreamUnauthorised,
)
from gateway.price import Usage
from gateway.wire.converse_reader import converse_reader
from gateway.wire.deltas import (
    AnswerEnd,
    AnswerStart,
    ChoiceFinish,
    ReasoningDelta,
    ReasoningSignature,
    RedactedReasoning,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
    UsageReport,
)
from tests.aws_frames import event, exception, frame

READERS = converse_reader("nova", AwsEventParser)
STREAMED = True
COUNTS = {
    "inputTokens": 4,
    "outputTokens": 7,
    "totalTokens": 16,
    "cacheReadInputTokens": 3,
    "cacheWriteInputTokens": 2,
}
USAGE = Usage(prompt_tokens=9, output_tokens=7, cached_tokens=3, cache_write_tokens=2)


def _delta(index: int, **delta: Any) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta, "p": "abc"})


FRAMES = (
    event("messageStart", {"role": "assistant"}),
    _delta(0, reasoningContent={"text": "hm"}),
    _delta(0, reasoningContent={"signature": "sig"}),
    event("contentBlockStop", {"contentBlockIndex": 0}),
    _delta(1, reasoningContent={"redactedContent": "QUJD"}),
    _delta(2, text="Hé"),
    event("contentBlockStart", {"contentBlockIndex": 3, "start": {"toolUse": {"toolUseId": "t1", "name": "look"}}}),
    _delta(3, toolUse={"input": ""}),
    _delta(3, toolUse={"input": '{"at":'}),
    _delta(3, toolUse={"input": "1}"}),
    event("contentBlockStop", {"contentBlockIndex": 3}),
    event("contentBlockStart", {"contentBlockIndex": 4, "start": {"toolUse": {"toolUseId": "t2", "name": "rest"}}}),
    event("contentBlockStop", {"contentBlockIndex": 4}),
    event("ofTomorrow", {}),
    event("messageStop", {"stopReason": "tool_use"}),
    event("metadata", {"usage": COUNTS, "metrics": {"latencyMs": 1}}),
)
SAID = [
    AnswerStart(model="nova"),
    ReasoningDelta(text="hm"),
    ReasoningSignature(signature="sig"),
    RedactedReasoning(data="QUJD"),
    TextDelta(text="Hé"),
    ToolCallStart(index=0, id="t1", name="look"),
    ToolCallArguments(index=0, text='{"at":'),
    ToolCallArguments(index=0, text="1}"),
    ToolCallStart(index=1, id="t2", name="rest"),
    ToolCallArguments(index=1, text="{}"),
    ChoiceFinish(reason="tool_calls"),
    UsageReport(usage=USAGE),
    AnswerEnd(),
]


@given(cuts=st.lists(st.integers(0, sum(map(len, FRAMES))), max_size=5).map(sorted))
def test_a_stream_is_the_same_for_every_cut(cuts: list[int]) -> None:
    """What is thought, signed, sealed, said, called and counted."""
    data = b"".join(FRAMES)
    reader = READERS(STREAMED)
    pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    deltas = [one for piece in pieces for one in reader.feed(piece)]
    assert SAID == deltas + reader.end()


def test_a_whole_answer_says_the_same() -> None:
    """All at once, at its end."""
    content = [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}},
        {"reasoningContent": {"redactedContent": "QUJD"}},
        {"citationsContent": {"content": [{"text": "Hé"}], "citations": []}},
        {"toolUse": {"toolUseId": "t1", "name": "look", "input": {"at": 1}}},
        {"text": "!"},
    ]
    answer = {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "stop_sequence",
        "additionalModelResponseFields": {"stop_sequence": "END"},
        "usage": COUNTS,
    }
    body = json.dumps(answer).encode()
    reader = READERS(not STREAMED)
    assert [] == reader.feed(body[:9]) + reader.feed(body[9:])
    assert [
        *SAID[:6],
        ToolCallArguments(index=0, text='{"at":1}'),
        TextDelta(text="!"),
        ChoiceFinish(reason="stop", stop_sequence="END"),
        UsageReport(usage=USAGE),
        AnswerEnd(),
    ] == reader.end()


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("guardrail_intervened", "content_filter"),
        ("content_filtered", "content_filter"),
        ("of_tomorrow", "of_tomorrow"),
    ],
)
def test_reasons_are_told_in_the_hubs_words(reason: str, told: str) -> None:
    """A word that we do not know goes on as it is."""
    deltas = READERS(STREAMED).feed(FRAMES[0] + event("messageStop", {"stopReason": reason}))
    assert ChoiceFinish(reason=told) == deltas[-1]


@pytest.mark.parametrize(
    ("name", "message", "expected"),
    [
        ("throttlingException", "Too many requests", UpstreamRateLimited),
        ("internalServerException", "oops", UpstreamFailed),
        ("modelStreamErrorException", "oops", UpstreamFailed),
        ("serviceUnavailableException", "later", UpstreamFailed),
        ("validationException", "bad", UpstreamRefused),
        ("validationException", "Input is too long for requested model.", UpstreamContextExceeded),
        ("expiredTokenException", "token of account 1", UpstreamUnauthorised),
        ("ofTomorrowException", "who knows", UpstreamFailed),
    ],
)
def test_an_exception_inside_is_told_by_its_name(name: str, message: str, expected: type[UpstreamError]) -> None:
    """What came before it stays, what comes after it is nothing."""
    reader = READERS(STREAMED)
    deltas = reader.feed(FRAMES[0] + _delta(0, text="He") + exception(name, message) + _delta(0, text="y"))
    assert [AnswerStart(model="nova"), TextDelta(text="He")] == deltas
    assert [] == reader.end()
    assert expected is type(reader.error)
    assert name == reader.error.upstream_code
    assert (message in str(reader.error)) is (expected is not UpstreamUnauthorised)


def test_an_error_without_a_type_is_told_by_its_code() -> None:
    """AWS's other frame for what went wrong."""
    reader = READERS(STREAMED)
    reader.feed(FRAMES[0] + frame(b"", message_type="error", error_code="InternalFailure", error_message="x"))
    assert "InternalFailure" == reader.error.upstream_code


def test_a_stream_that_breaks_off_is_truncated() -> None:
    """Only a reason is an end; nothing at all is no answer."""
    reader = READERS(STREAMED)
    reader.feed(b"".join(FRAMES[:6]))
    with pytest.raises(UpstreamTruncated):
        reader.end()
    with pytest.raises(UpstreamInvalid):
        READERS(STREAMED).end()


@pytest.mark.parametrize(
    ("start", "delta", "said"),
    [
        ({"reasoningContent": {}}, {"reasoningContent": {"text": "hm"}}, ReasoningDelta(text="hm")),
        ({}, {"text": "Hé"}, TextDelta(text="Hé")),
    ],
)
def test_a_block_may_be_announced_with_nothing_in_it(start: Any, delta: Any, said: Any) -> None:
    """AWS announces calls only; servers that imitate it announce thoughts and texts as well."""
    announced = event("contentBlockStart", {"contentBlockIndex": 0, "start": start})
    assert [AnswerStart(model="nova"), said] == READERS(STREAMED).feed(FRAMES[0] + announced + _delta(0, **delta))


@pytest.mark.parametrize(
    "bad",
    [
        b"x" * 64,
        FRAMES[0][:-1] + b"\x00",
        frame(b"[1]", message_type="event", event_type="messageStart"),
        event("messageStop", {"stopReason": "malformed_tool_use"}),
        event("contentBlockStart", {"start": {"toolUse": {"name": "x"}}}),
        event("contentBlockStart", {"start": {"image": {"format": "png"}}}),
        _delta(0, image={"source": {}}),
    ],
)
def test_what_is_no_answer_is_said_to_be_none(bad: bytes) -> None:
    """Another backend may do better."""
    with pytest.raises(UpstreamInvalid):
        READERS(STREAMED).feed(bad)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b" ", UpstreamInvalid),
        (b"{}", UpstreamInvalid),
        (b'{"message":"no"}', UpstreamFailed),
        (b'{"output":{"message":{"content":[{"image":{}}]}},"stopReason":"end_turn"}', UpstreamInvalid),
        (b'{"output":{"message":{"content":[]}}}', UpstreamTruncated),
    ],
)
def test_whole_answers_that_are_none(body: bytes, expected: type[UpstreamError]) -> None:
    """Empty, something else, an error in the clothes of a success."""
    reader = READERS(not STREAMED)
    reader.feed(body)
    with pytest.raises(expected):
        reader.end()


@given(data=st.binary(max_size=80) | st.binary(max_size=40).map(lambda it: frame(it, message_type="event")))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Nothing else is ever raised."""
    reader = READERS(STREAMED)
    try:
        reader.feed(data)
        reader.end()
    except UpstreamError as error:
        assert error.message  # noqa: PT017  # either outcome is right, and no third
