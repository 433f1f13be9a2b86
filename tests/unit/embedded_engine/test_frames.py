import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_engine.frames import (
    MAX_FRAME_BYTES,
    FrameReader,
    FrameTooLarge,
    NotEncodable,
    ProtocolError,
    decode_from_engine,
    decode_to_engine,
    frame,
)
from embedded_engine.messages import Cancel, ChatMessage, Done, Facts, Generate, Text

_REQUEST = Generate(id=3, messages=(ChatMessage(role="user", content="ü😀"),), stop=("\n",), seed=-1, max_tokens=5)
_EVENTS = [
    Text(id=1, choice=0, text="é", tokens=2),
    Done(id=1, choice=0, reason="stop", completion_tokens=2),
    Facts(queued=0, running=1, free_kv_tokens=7, steps=9, tokens_per_s=1.5, prefill_tokens_per_s=0.0),
]


@given(st.lists(st.integers(0, 400), max_size=8))
def test_cutting_the_bytes_elsewhere_gives_the_same_messages(cuts: list[int]) -> None:
    """A socket keeps no borders."""
    stream = b"".join(map(frame, _EVENTS))
    borders = sorted({0, *(cut % len(stream) for cut in cuts), len(stream)})
    reader = FrameReader()
    bodies = [body for start, end in itertools.pairwise(borders) for body in reader.feed(stream[start:end])]
    assert _EVENTS == [decode_from_engine(body) for body in bodies]


def test_requests_survive_the_wire() -> None:
    """Every field, and the kind of message."""
    bodies = list(FrameReader().feed(frame(_REQUEST) + frame(Cancel(id=3))))
    assert [_REQUEST, Cancel(id=3)] == [decode_to_engine(body) for body in bodies]


def test_a_frame_that_announces_too_much_is_refused_before_it_is_read() -> None:
    """A broken length must not fill the memory."""
    with pytest.raises(FrameTooLarge, match="announces"):
        list(FrameReader().feed((MAX_FRAME_BYTES + 1).to_bytes(4, "big")))


def test_a_message_that_is_too_large_is_not_sent() -> None:
    """The other side would refuse it."""
    with pytest.raises(FrameTooLarge, match="over the limit"):
        frame(Generate(id=1, text="x" * MAX_FRAME_BYTES))


def test_text_that_is_not_unicode_is_not_sent() -> None:
    """Lone surrogates have no bytes."""
    with pytest.raises(NotEncodable, match="not Unicode"):
        frame(Generate(id=1, text="\ud800"))


@pytest.mark.parametrize(
    "field", [{"top_k": 2**64}, {"seed": -(2**63) - 1}, {"max_tokens": 2**64}, {"token_ids": (1, 2**64)}, {"n": 2**64}]
)
def test_integers_of_more_than_64_bits_are_not_sent(field: dict[str, Any]) -> None:
    """MessagePack has no room for them."""
    with pytest.raises(NotEncodable, match="64 bits"):
        frame(Generate(id=1, text="x", **field))


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x93\x01\x02\x03", b"\x81\xa4type\xa4Nope"])
def test_what_is_no_message_is_refused(body: bytes) -> None:
    """In either direction."""
    with pytest.raises(ProtocolError):
        decode_to_engine(body)
    with pytest.raises(ProtocolError):
        decode_from_engine(body)
