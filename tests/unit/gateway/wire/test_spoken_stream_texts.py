"""Streams of transcripts before their guards: held, and through windows."""

from typing import Any

import msgspec
import pytest

from gateway.guarding.held_stream import HeldStream
from gateway.guarding.window import Window
from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.wire.spoken_stream_texts import SpokenStreamTexts
from gateway.wire.sse import SseEvent
from gateway.wire.stream_texts import Passing
from policies.guard.pattern import Pattern

GUARD = Pattern(patterns=(r"\b4111 1111\b",), action="redact", replacement="[card]")
ARRIVAL = Arrival(
    id="req-1",
    operation=Operation.TRANSCRIPTION,
    tenant="acme",
    received_s=0.0,
    received_unix_s=0.0,
    trace=TraceContext(trace_id="0" * 31 + "1", span_id="0" * 15 + "1"),
)


def _delta(delta: str, **more: Any) -> dict[str, Any]:
    return {"type": "transcript.text.delta", "delta": delta, **more}


def _segment(text: str) -> dict[str, Any]:
    return {"type": "transcript.text.segment", "id": "s", "speaker": "4111 1111", "text": text}


def _done(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "transcript.text.done", "text": text, **more}


def _passings(*events: dict[str, Any]) -> list[Passing]:
    texts = SpokenStreamTexts(ChatRequest(arrival=ARRIVAL, model="small"))
    return [texts.passing(SseEvent(b"", msgspec.json.encode(event))) for event in events]


def _held(*events: dict[str, Any]) -> list[Any]:
    passings = _passings(*events)
    stream = HeldStream(passings)
    stream.rewrite([text.text.replace("4111 1111", "[card]") for text in stream.transcript.texts])
    return [msgspec.json.decode(passing.data) for passing in passings]


def _windowed(*events: dict[str, Any]) -> list[Any]:
    window = Window(GUARD, hit=lambda: None, replaces=True, most_bytes=1 << 20)
    out = [passing for came in _passings(*events) for passing in window.feed(came)]
    return [msgspec.json.decode(passing.data) for passing in out]


@pytest.mark.parametrize("way", [_held, _windowed])
@pytest.mark.parametrize(
    ("came", "goes"),
    [
        pytest.param(
            [_delta("a 41", logprobs=[{"token": "41"}]), _delta("11 1111 b"), _done("a 4111 1111 b")],
            [_delta("a [card]", logprobs=[]), _delta(" b"), _done("a [card] b")],
            id="deltas, and all again",
        ),
        pytest.param(
            [
                _segment("a 4111"),
                _segment("1111"),
                _segment("b"),
                _done("a", words=[{"word": "4111 1111"}]),
            ],
            [_segment("a [card]"), _segment(""), _segment("b"), _done("a", words=[{"word": "[card]"}])],
            id="segments that go on from each other",
        ),
        pytest.param([_done("a", logprobs=[{"token": "a"}])], [_done("a", logprobs=[{"token": "a"}])], id="no match"),
        pytest.param(
            [{"type": "transcript.note", "note": {"said": "4111 1111"}}, _done("")],
            [{"type": "transcript.note", "note": {"said": "[card]"}}, _done("")],
            id="an event that nobody knows",
        ),
    ],
)
def test_a_match_is_replaced_wherever_the_stream_says_it(way: Any, came: list[Any], goes: list[Any]) -> None:
    """And nothing else: each event is there, with the speaker's label as it was."""
    assert goes == way(*came)


def test_the_end_mark_ends_everything() -> None:
    """As ``transcript.text.done`` does."""
    texts = SpokenStreamTexts(ChatRequest(arrival=ARRIVAL, model="small"))
    assert texts.passing(SseEvent(b"", b"[DONE]")).ends_all


def test_a_stream_that_must_not_go_on_ends_with_an_error() -> None:
    """Transcripts have no reason to end with, and the official clients raise on this."""
    ending = SpokenStreamTexts(ChatRequest(arrival=ARRIVAL, model="small")).blocked()
    assert "content_filter" == msgspec.json.decode(ending.removeprefix(b"data: "))["error"]["code"]


def test_of_a_held_stream_each_segment_keeps_what_was_said_in_it() -> None:
    """Between two that changed, too: who said it and when is told beside it."""
    came = [_segment("a 4111 1111"), _segment("b"), _segment("4111 1111 c"), _done("a")]
    assert [_segment("a [card]"), _segment("b"), _segment("[card] c"), _done("a")] == _held(*came)
