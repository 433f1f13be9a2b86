import json
from typing import Any

import pytest

from gateway.errors import UpstreamInvalid, UpstreamRateLimited, UpstreamTruncated
from gateway.price import Usage
from gateway.wire.deltas import (
    AnswerEnd,
    AnswerStart,
    ChoiceFinish,
    ReasoningDelta,
    ReasoningSignature,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
    UsageReport,
)
from gateway.wire.gemini_reader import gemini_reader

COUNTS = {
    "promptTokenCount": 9,
    "candidatesTokenCount": 4,
    "thoughtsTokenCount": 3,
    "cachedContentTokenCount": 5,
    "totalTokenCount": 16,
}
USAGE = Usage(prompt_tokens=9, output_tokens=7, cached_tokens=5, reasoning_tokens=3)
CALL = {"functionCall": {"name": "look", "args": {"at": 1}}, "thoughtSignature": "sig"}


def piece(*parts: dict[str, Any], reason: str = "", **fields: Any) -> dict[str, Any]:
    """One answer of a stream, or a whole one."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "modelVersion": "gemini", "responseId": "r", **fields}


def streamed(*pieces: Any) -> bytes:
    """Pieces as events."""
    return b"".join(b"data: " + json.dumps(one).encode() + b"\r\n\r\n" for one in pieces)


PIECES = (
    piece({"text": "hm", "thought": True}),
    piece({"text": "He"}),
    piece({"text": "y"}, CALL, reason="STOP", usageMetadata=COUNTS),
)
DELTAS = [
    AnswerStart(id="r", model="gemini"),
    ReasoningDelta(text="hm"),
    TextDelta(text="He"),
    TextDelta(text="y"),
    ReasoningSignature(signature="sig"),
    ToolCallStart(index=0, id="call_r_0_0", name="look"),
    ToolCallArguments(index=0, text='{"at":1}'),
    ChoiceFinish(reason="tool_calls"),
    UsageReport(usage=USAGE),
    AnswerEnd(),
]


def test_a_stream_is_the_same_for_every_cut() -> None:
    """What is thought, said, signed, called and counted."""
    data = streamed(*PIECES)
    for at in range(len(data) + 1):
        reader = gemini_reader(streamed=True)
        assert DELTAS == reader.feed(data[:at]) + reader.feed(data[at:]) + reader.end()


def test_a_whole_answer_says_the_same() -> None:
    """All at once, at its end."""
    parts = [part for one in PIECES for part in one["candidates"][0]["content"]["parts"]]
    body = json.dumps(piece(*parts, reason="STOP", usageMetadata=COUNTS)).encode()
    reader = gemini_reader(streamed=False)
    assert [] == reader.feed(body[:9]) + reader.feed(body[9:])
    assert DELTAS == reader.end()


@pytest.mark.parametrize(
    ("reason", "told"),
    [("STOP", "stop"), ("MAX_TOKENS", "length"), ("SAFETY", "content_filter"), ("NEW_REASON", "new_reason")],
)
def test_reasons_are_told_in_the_hubs_words(reason: str, told: str) -> None:
    """A word that we do not know goes on as it is."""
    reader = gemini_reader(streamed=True)
    assert ChoiceFinish(reason=told) in reader.feed(streamed(piece({"text": "x"}, reason=reason)))


def test_a_prompt_that_is_blocked_is_filtered() -> None:
    """There is no answer, and that is the answer."""
    reader = gemini_reader(streamed=True)
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "responseId": "r"}
    assert ChoiceFinish(reason="content_filter") in reader.feed(streamed(blocked)) + reader.end()


def test_several_candidates_are_choices() -> None:
    """Each with a text and an end of its own."""
    both = {
        "candidates": [
            {"index": at, "content": {"parts": [{"text": str(at)}]}, "finishReason": "STOP"} for at in (0, 1)
        ]
    }
    reader = gemini_reader(streamed=True)
    deltas = reader.feed(streamed(both)) + reader.end()
    assert [("0", 0), ("1", 1)] == [(one.text, one.choice) for one in deltas if isinstance(one, TextDelta)]


def test_a_stream_that_breaks_off_is_truncated() -> None:
    """Only a reason is an end."""
    reader = gemini_reader(streamed=True)
    reader.feed(streamed(*PIECES[:2]))
    with pytest.raises(UpstreamTruncated):
        reader.end()
    with pytest.raises(UpstreamInvalid):
        gemini_reader(streamed=True).end()


def test_an_error_inside_is_told_by_its_kind() -> None:
    """As Google writes it."""
    reader = gemini_reader(streamed=True)
    error = {"error": {"code": "rate_limit_exceeded", "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}
    assert [] == reader.feed(streamed(error)) + reader.end()
    assert isinstance(reader.error, UpstreamRateLimited)


@pytest.mark.parametrize(
    "bad",
    [
        piece({"executableCode": {"code": "1"}}),
        piece({"functionCall": {}}),
        piece({"text": "x"}, reason="MALFORMED_FUNCTION_CALL"),
        [1],
    ],
)
def test_what_is_no_answer_is_said_to_be_none(bad: Any) -> None:
    """Another backend may do better."""
    with pytest.raises(UpstreamInvalid):
        gemini_reader(streamed=True).feed(streamed(bad))
