"""The parser against a naive reading of the same rules, under every cut."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UpstreamInvalid
from gateway.wire.sse import SseEvent, SseParser, frame

BOUND = 8 * 1024 * 1024
PIECES = [
    b"data:",
    b"data: ",
    b"data",
    b"event: error",
    b"event:",
    b": comment",
    b"id: 1",
    b"retry",
    b"x",
    b" ",
    b":",
    b"\r",
    b"\n",
    b"\r\n",
    b"\n\n",
    b"\xef\xbb\xbf",
    "日本語 👋".encode(),
    "\u2028\x0c\x85".encode(),
]
streams = st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join)
STREAM = (
    'data: {"text":"日本語 👋"}\n\n'
    ": keep-alive\n\n"
    'event: message\ndata: {"tool_calls":[{"index":0,"function":{"name":"f"}}]}\nid: 7\n\n'
    "data: first\ndata:second\ndata:\n\n"
    "data:[DONE]\n\n"
).encode()
EVENTS = [
    SseEvent(b"", '{"text":"日本語 👋"}'.encode()),
    SseEvent(b"message", b'{"tool_calls":[{"index":0,"function":{"name":"f"}}]}'),
    SseEvent(b"", b"first\nsecond\n"),
    SseEvent(b"", b"[DONE]"),
]


def naive(stream: bytes) -> list[SseEvent]:
    """The rules once more, on the whole stream, as plainly as possible."""
    lines = re.split(rb"\r\n|\r|\n", stream.removeprefix(b"\xef\xbb\xbf"))[:-1]
    events, data, name = [], [], b""
    for line in lines:
        if not line:
            if data:
                events.append(SseEvent(name, b"\n".join(data)))
            data, name = [], b""
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return events


def feed_all(pieces: list[bytes], bound: int = BOUND) -> list[SseEvent]:
    """The events of all pieces, in order, from a fresh parser."""
    parser = SseParser(bound)
    return [event for piece in pieces for event in parser.feed(piece)]


@given(stream=streams, cuts=st.lists(st.integers(min_value=0, max_value=200), max_size=12))
def test_any_cut_of_any_stream_gives_the_events_of_the_naive_reading(stream: bytes, cuts: list[int]) -> None:
    """Where the network cuts is of no consequence."""
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in itertools.pairwise(edges)]
    assert naive(stream) == feed_all(pieces)


@given(stream=streams)
def test_byte_by_byte_gives_the_events_of_the_naive_reading(stream: bytes) -> None:
    """The worst cut of all."""
    assert naive(stream) == feed_all([stream[at : at + 1] for at in range(len(stream))])


@given(before=streams, data=st.one_of(streams, streams.map(lambda text: b"data: %b\n\n" % text)), after=streams)
def test_one_usual_event_is_what_feed_would_give(before: bytes, data: bytes, after: bytes) -> None:
    """Wherever it comes; what it does not take changes nothing."""
    parser, other = SseParser(BOUND), SseParser(BOUND)
    assert parser.feed(before) == other.feed(before)
    said = parser.usual(data)
    assert other.feed(data) == ([SseEvent(b"", said)] if said else parser.feed(data))
    assert (parser.idle, parser.feed(after)) == (other.idle, other.feed(after))


def test_an_event_on_one_line_is_usual() -> None:
    """From the first on; not where something is pending, and not with a name."""
    parser = SseParser(BOUND)
    assert b"x" == parser.usual(b"data: x\n\n")
    assert parser.idle
    parser.feed(b"data: y\n")
    assert b"" == parser.usual(b"data: x\n\n")
    assert b"" == SseParser(BOUND).usual(b"event: e\ndata: x\n\n")


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_every_line_end_and_every_offset_give_the_same_events(end: bytes, start: bytes) -> None:
    """LF, CR and CRLF, with and without a byte order mark, cut once at every offset."""
    stream = start + STREAM.replace(b"\n", end)
    for at in range(len(stream) + 1):
        assert EVENTS == feed_all([stream[:at], stream[at:]])


def test_a_line_of_three_megabytes_arrives_whole_however_small_the_pieces() -> None:
    """There is no ceiling below the configured one, and small pieces are not copied over and over."""
    text = b"x" * (3 * 1024 * 1024)
    stream = b"data: " + text + b"\n\n"
    assert [SseEvent(b"", text)] == feed_all([stream])
    assert [SseEvent(b"", text)] == feed_all([stream[at : at + 7] for at in range(0, len(stream), 7)])


def test_unicode_line_separators_are_text() -> None:
    """Only CR, LF and CRLF end a line."""
    text = "a\u2028b\u2029c\x85d\x0be\x0cf".encode()
    assert [SseEvent(b"", text)] == feed_all([b"data: " + text + b"\n\n"])


def test_only_the_first_space_after_the_colon_goes() -> None:
    """The rest belongs to the data."""
    assert [SseEvent(b"", b" x ")] == feed_all([b"data:  x \n\n"])


@pytest.mark.parametrize("stream", [b"data: x\n", b"data: x", b"event: error\n", b"dat", b"data: x\n: c\n"])
def test_an_unfinished_event_is_partial_and_never_dispatched(stream: bytes) -> None:
    """At the end of the bytes this is what tells truncation."""
    parser = SseParser(BOUND)
    assert [] == parser.feed(stream)
    assert parser.partial


@pytest.mark.parametrize("stream", [b"", b": half a comm", b"data: x\n\n", b"data: x\r\r", b": c\n\n", b"\n"])
def test_between_events_nothing_is_partial(stream: bytes) -> None:
    """An unfinished comment is no unfinished event."""
    parser = SseParser(BOUND)
    parser.feed(stream)
    assert not parser.partial


@pytest.mark.parametrize("cut", [1, 7, 1000])
@pytest.mark.parametrize("line", [b"data: " + b"x" * 120, b"data: " + b"x" * 120 + b"\n", b"data: xxxx\n" * 12])
def test_an_event_over_the_bound_is_refused(line: bytes, cut: int) -> None:
    """Whether it is one line or many, finished or not, however it is cut."""
    pieces = [line[at : at + cut] for at in range(0, len(line), cut)]
    with pytest.raises(UpstreamInvalid, match="more than 100 bytes"):
        feed_all(pieces, bound=100)


def test_the_bound_is_for_one_event_and_not_for_the_stream() -> None:
    """A long stream of short events is fine."""
    parser = SseParser(100)
    assert 1000 == sum(len(parser.feed(b"data: " + b"x" * 80 + b"\n\n")) for _ in range(1000))


@given(lines=st.lists(st.sampled_from([b"", b"x", b" y", b"data: z", "é".encode()]), min_size=1, max_size=5))
def test_a_frame_reads_back_as_its_data(lines: list[bytes]) -> None:
    """Data of several lines is written as several lines."""
    data = b"\n".join(lines)
    assert [SseEvent(b"", data)] == feed_all([frame(data)])
