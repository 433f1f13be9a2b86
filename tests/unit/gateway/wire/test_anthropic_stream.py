"""One look at a stream of Anthropic's as it passes: what the client gets does not depend on the cuts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UpstreamInvalid
from gateway.wire.anthropic_stream import AnthropicStream
from gateway.wire.format import estimate_output


def event(kind: str, **fields: Any) -> bytes:
    """As Anthropic sends it."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def grown(**delta: str) -> bytes:
    """More of a block."""
    return event("content_block_delta", index=0, delta={"type": "text_delta", **delta})


HEAD = event("message_start", message={"model": "m", "usage": {"input_tokens": 3, "output_tokens": 1}})
BEGIN = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
STOPPED = event("content_block_stop", index=0)
PING = event("ping")
TAIL = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 7}) + event("message_stop")
TEXTS = st.one_of(st.sampled_from(["word", "}\n\nevent: error", "\\", '"type":"error"', "\r"]), st.text(max_size=4))
MIDDLE = st.lists(
    st.one_of(TEXTS.map(lambda text: grown(text=text)), st.sampled_from([PING, STOPPED, BEGIN, b"data: {}\n\n"])),
    max_size=20,
)


def look() -> AnthropicStream:
    """A fresh one."""
    return AnthropicStream(max_event_bytes=1 << 20, estimate=estimate_output)


@given(middle=MIDDLE, sizes=st.lists(st.integers(1, 400), min_size=1), end=st.sampled_from(["\n", "\r\n"]))
def test_any_cut_and_any_line_end_give_the_client_the_same(middle: list[bytes], sizes: list[int], end: str) -> None:
    """Byte for byte, and with the same counts at the end."""
    sent = b"".join([HEAD, BEGIN, *middle, STOPPED, TAIL])
    whole, cut, out, at, turn = look(), look(), b"", 0, 0
    came = sent.replace(b"\n", end.encode())
    while at < len(came):
        step = sizes[turn % len(sizes)]
        out += cut.feed(came[at : at + step])
        at, turn = at + step, turn + 1
    assert whole.feed(sent) == out
    assert (whole.usage, whole.finish_reason, whole.done) == (cut.usage, cut.finish_reason, cut.done)
    assert sent.replace(b"data: {}\n\n", b"event: message\ndata: {}\n\n") == out


def test_events_that_say_more_of_a_block_pass_alone_and_together() -> None:
    """Their text is counted without being read, and what breaks a line in it is not overlooked."""
    view = look()
    view.feed(HEAD + BEGIN + grown(text="word"))
    for read in (grown(text="more"), grown(text="more") * 3, grown(text="a\nb") + STOPPED):
        assert read == view.feed(read)
    assert 4 * 5 <= view.output_bytes <= 4 * 5 + 40
    with pytest.raises(UpstreamInvalid):
        view.feed(grown(text="ab").replace(b"ab", b"a\rb"))


@pytest.mark.parametrize("kind", [[], {}, ["ping"], 5, None])
def test_a_type_that_is_no_word_is_none(kind: Any) -> None:
    """Of an event, whose name then tells, and of a block: neither breaks the stream."""
    odd = f"event: ping\ndata: {json.dumps({'type': kind})}\n\n".encode()
    begin = event("content_block_start", index=0, content_block={"type": kind})
    view = look()
    assert HEAD + odd + begin + TAIL == view.feed(HEAD + odd + begin + TAIL)
    assert view.done
