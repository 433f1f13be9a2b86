"""What a read of a stream costs: events that nobody has to look at go on as they came, whatever came with them."""

import json
from typing import Any

import pytest

from gateway.wire import openai_stream
from gateway.wire.openai_stream import OpenAIStream


def chunk(delta: Any, finish: str | None = None) -> bytes:
    """One event of a chat."""
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"id": "c", "model": "m", "choices": choices}).encode() + b"\n\n"


ROLE, WORD, STOP = chunk({"role": "assistant"}), chunk({"content": "word"}), chunk({}, "stop")
DONE = b"data: [DONE]\n\n"


@pytest.fixture
def framed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The events that were taken apart and written anew."""
    seen: list[bytes] = []
    frame = openai_stream.frame

    def counting(data: bytes) -> bytes:
        seen.append(data)
        return frame(data)

    monkeypatch.setattr(openai_stream, "frame", counting)
    return seen


@pytest.mark.parametrize(
    ("before", "read", "taken_apart"),
    [
        (b"", ROLE + WORD * 50, 2),
        (ROLE + WORD, WORD * 50 + STOP + DONE, 1),
        (ROLE + WORD + WORD[:9], WORD[9:] + WORD * 50 + WORD[:9], 1),
        (b"", ROLE + WORD * 50 + STOP + DONE, 3),
    ],
    ids=["opening", "end", "cut", "all"],
)
def test_only_what_matters_is_taken_apart(framed: list[bytes], before: bytes, read: bytes, taken_apart: int) -> None:
    """The opening, the end, and an event that was cut in two; the words that came in the same read go as they are."""
    look = OpenAIStream(choices=1, include_usage=False, max_event_bytes=1 << 20)
    out = look.feed(before)
    framed.clear()
    out += look.feed(read)
    assert out == (before + read).removesuffix(WORD[:9])
    assert taken_apart == len(framed)


def test_silent_events_without_end_in_one_read_are_no_burden() -> None:
    """Ten thousand comments before the first word: they are stepped over in a loop."""
    look = OpenAIStream(choices=1, include_usage=False, max_event_bytes=1 << 20)
    assert WORD == look.feed(b": ping\n\n" * 10_000 + WORD)
