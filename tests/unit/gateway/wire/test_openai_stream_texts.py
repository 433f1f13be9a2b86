"""Texts that some providers put elsewhere in a chat's events than a plain string."""

from typing import Any

import msgspec
import pytest

from gateway.guarding.held_stream import HeldStream
from gateway.guarding.window import Window
from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.wire.openai_stream_texts import OpenAIStreamTexts
from gateway.wire.sse import SseEvent
from gateway.wire.stream_texts import Passing
from policies.guard.pattern import Pattern

GUARD = Pattern(patterns=("4111 1111",), action="redact", replacement="[card]")
ARRIVAL = Arrival(
    id="req-1",
    operation=Operation.CHAT,
    tenant="acme",
    received_s=0.0,
    received_unix_s=0.0,
    trace=TraceContext(trace_id="0" * 31 + "1", span_id="0" * 15 + "1"),
)


def _passings(*choices: dict[str, Any]) -> list[Passing]:
    texts = OpenAIStreamTexts(ChatRequest(arrival=ARRIVAL, model="small"))
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    events = [msgspec.json.encode({"id": "c", "choices": [{"index": 0, **choice}]}) for choice in (*choices, last)]
    return [texts.passing(SseEvent(b"", data)) for data in events]


def _windowed(*choices: dict[str, Any]) -> list[list[Any]]:
    """What goes out after each event that came."""
    window = Window(GUARD, hit=lambda: None, replaces=True, most_bytes=1 << 20)
    return [[_choice(out) for out in window.feed(passing)] for passing in _passings(*choices)]


def _held(*choices: dict[str, Any]) -> list[Any]:
    passings = _passings(*choices)
    stream = HeldStream(passings)
    stream.rewrite([text.text.replace("4111 1111", "[card]") for text in stream.transcript.texts])
    return [_choice(passing) for passing in passings]


def _choice(passing: Passing) -> Any:
    return {name: value for name, value in msgspec.json.decode(passing.data)["choices"][0].items() if name != "index"}


def _delta(**delta: Any) -> dict[str, Any]:
    return {"delta": delta}


def _thinking(text: str) -> dict[str, Any]:
    return _delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": text}]}])


def _part(text: str) -> dict[str, Any]:
    return _delta(content=[{"type": "text", "text": text}])


def _detail(text: str) -> dict[str, Any]:
    return _delta(reasoning_details=[{"type": "reasoning.text", "text": text}])


def _cited(text: str) -> dict[str, Any]:
    return _delta(annotations=[{"type": "url_citation", "url_citation": {"title": text, "url": "https://u"}}])


@pytest.mark.parametrize(
    ("came", "goes"),
    [
        pytest.param([_part("a 41"), _part("11 1111 b")], [_part("a [card]"), _part(" b")], id="text in parts"),
        pytest.param([_part("a 41"), _delta(content="11 1111")], [_part("a [card]"), _delta(content="")], id="both"),
        pytest.param([_thinking("41"), _thinking("11 1111 b")], [_thinking("[card]"), _thinking(" b")], id="thoughts"),
        pytest.param([_detail("41"), _detail("11 1111")], [_detail("[card]"), _detail("")], id="details of thoughts"),
        pytest.param([_cited("4111 1111")], [_cited("[card]")], id="a citation"),
        pytest.param(
            [_delta(audio={"transcript": "41"}), _delta(audio={"transcript": "11 1111", "data": "AA=="})],
            [_delta(audio={"transcript": "[card]"}), _delta(audio={"transcript": "", "data": "AA=="})],
            id="the transcript of a sound",
        ),
        pytest.param(
            [{"message": {"role": "assistant", "content": "4111 1111"}}],
            [{"message": {"role": "assistant", "content": "[card]"}}],
            id="a message in place of a delta",
        ),
    ],
)
def test_what_is_said_in_parts_is_seen(came: list[dict[str, Any]], goes: list[dict[str, Any]]) -> None:
    """Over the places where it is cut, in a window and held."""
    out = [*goes, {"delta": {}, "finish_reason": "stop"}]
    assert out == [choice for after in _windowed(*came) for choice in after]
    assert out == _held(*came)


@pytest.mark.parametrize("thoughts", [_thinking, _detail])
def test_thoughts_in_parts_hold_nothing_back_once_the_text_begins(thoughts: Any) -> None:
    """They are over then."""
    assert [[], [thoughts("ab")]] == [out[:1] for out in _windowed(thoughts("ab"), _delta(content="c"))[:2]]


def test_tokens_by_number_go_with_the_text_that_they_are() -> None:
    """Like their probabilities."""
    came = {"delta": {"content": "4111 1111"}, "token_ids": [4111], "logprobs": {"content": []}}
    gone = {"delta": {"content": "[card]"}, "token_ids": [], "logprobs": None}
    assert gone == _held(came)[0]
