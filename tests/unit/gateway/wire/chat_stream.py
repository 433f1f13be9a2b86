"""Pieces of a streamed chat as an upstream sends it, and what a client reads of it; imported by the stream's tests."""

import json
from typing import Any

from gateway.price import Usage
from gateway.wire.openai_stream import OpenAIStream

USAGE = {
    "prompt_tokens": 5,
    "completion_tokens": 7,
    "total_tokens": 12,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
COUNTS = Usage(prompt_tokens=5, output_tokens=7, cached_tokens=3, reasoning_tokens=2)
DONE = b"data: [DONE]\n\n"


def view(*, choices: int = 1, include_usage: bool = False) -> OpenAIStream:
    """A fresh look."""
    return OpenAIStream(choices=choices, include_usage=include_usage, max_event_bytes=4 * 1024 * 1024)


def chunk(delta: Any = None, *, index: int = 0, finish: str | None = None, **fields: Any) -> bytes:
    """One event of a chat."""
    choice = {"index": index, "delta": delta or {}, "finish_reason": finish}
    return event({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **fields})


def event(fields: Any) -> bytes:
    """One event of anything."""
    return b"data: " + json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


def payloads(stream: bytes) -> list[Any]:
    """The events that a client reads, which must all be canonical."""
    frames = stream.split(b"\n\n")
    assert frames.pop() == b""
    assert all(frame.startswith(b"data: ") and b"\n" not in frame for frame in frames)
    return [frame[6:].decode() if frame == DONE[:-2] else json.loads(frame[6:]) for frame in frames]


ROLE = chunk({"role": "assistant", "content": ""})
HELLO = chunk({"content": 'He said "usage": {"error":1} 日本語 👋'})
MORE = chunk({"content": " more"})
STOP = chunk(finish="stop")
