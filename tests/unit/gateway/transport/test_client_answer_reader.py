"""However the network cuts an answer, the same is read of it."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UpstreamInvalid, UpstreamUnreachable
from gateway.transport.answer_reader import MAX_HEAD_BYTES, MAX_HEADERS, AnswerReader

NAMES = st.from_regex(r"x-[a-z0-9]{1,8}", fullmatch=True)
VALUES = st.from_regex(r"([\x21-\x7e\xa1-\xff]([\t -~]{0,20}[\x21-\x7e])?)?", fullmatch=True)
INTERIMS = st.lists(
    st.sampled_from([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Hints\r\nlink: a\r\n\r\n"]), max_size=2
)


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, dict[str, Any], bool]:
    """An answer on the wire, what it says, and whether its end shows without the connection's."""
    status = draw(st.integers(200, 599).filter(lambda number: number not in {204, 304}))
    headers = draw(st.lists(st.tuples(NAMES, VALUES), max_size=5))
    chunks = draw(st.lists(st.binary(min_size=1, max_size=30), max_size=6))
    framing = draw(st.sampled_from(["length", "chunked", "close"]))
    body = b"".join(chunks)
    wire = body
    if framing == "length":
        headers = [*headers, ("content-length", str(len(body)))]
    elif framing == "chunked":
        headers = [("transfer-encoding", "chunked"), *headers]
        wire = b"".join(b"%X\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n"
        wire += draw(st.sampled_from([b"", b"x-trailer: 1\r\n"])) + b"\r\n"
    lines = "".join(f"{name.title()}: {value}\r\n" for name, value in headers)
    head = f"HTTP/1.1 {status} Words\r\n{lines}\r\n".encode("latin-1")
    said = {"status": status, "headers": headers, "body": body}
    return b"".join(draw(INTERIMS)) + head + wire, said, framing != "close"


def read(reader: AnswerReader, pieces: list[bytes]) -> dict[str, Any]:
    """What the reader has of the pieces."""
    for piece in pieces:
        reader.feed(piece)
    return {"status": reader.status, "headers": reader.headers, "body": b"".join(reader.pieces)}


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The pieces between the places, none of them empty."""
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[begin:end] for begin, end in pairwise(ends)]


@given(answers(), st.lists(st.integers(0, 10_000), max_size=20), st.booleans())
def test_any_cut_reads_the_same(answer: tuple[bytes, dict[str, Any], bool], places: list[int], each: bool) -> None:
    """Head and body are the same for every cut, byte by byte too, and the end is seen with the last byte."""
    wire, said, ends_itself = answer
    pieces = [wire[at : at + 1] for at in range(len(wire))] if each else cut(wire, places)
    reader = AnswerReader()
    for _ in range(2):
        reader.expect()
        got = read(reader, pieces)
        if not ends_itself:
            assert not reader.complete
            reader.end()
        assert (said, True, None) == (got, reader.complete, reader.fault)
        assert ends_itself == reader.keep_alive
        if not ends_itself:
            break


@given(answers(), st.integers(0, 10_000))
def test_an_answer_that_breaks_off_is_never_complete(answer: tuple[bytes, dict[str, Any], bool], place: int) -> None:
    """Wherever the connection is cut, what is missing is noticed; what was read is a beginning of what was said."""
    wire, said, ends_itself = answer
    reader = AnswerReader()
    got = read(reader, [wire[: place % len(wire)]])
    if ends_itself:
        reader.end()
    else:
        reader.cut(ConnectionResetError())
    assert not reader.complete
    assert isinstance(reader.fault, UpstreamUnreachable)
    assert said["body"].startswith(got["body"])
    assert got["status"] in {0, said["status"]}


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_any_bytes_are_an_answer_or_a_fault(data: bytes, places: list[int]) -> None:
    """Nothing that comes makes the reader raise; after a fault nothing more is taken for an answer."""
    reader = AnswerReader()
    for piece in cut(data, places):
        reader.feed(piece)
        if reader.fault is not None:
            break
    reader.end()
    assert reader.complete != (reader.fault is not None)


@pytest.mark.parametrize("step", [1, 1000, 2**20])
@pytest.mark.parametrize(
    "endless",
    [
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 10 * MAX_HEAD_BYTES,
        b"HTTP/1.1 200 " + b"a" * 10 * MAX_HEAD_BYTES,
        b"HTTP/1.1 200 OK\r\n" + b"x: a\r\n" * 2 * MAX_HEAD_BYTES,
        b"HTTP/1.1 100 Continue\r\n\r\n" * MAX_HEAD_BYTES,
    ],
    ids=["value", "reason", "fields", "interim"],
)
def test_an_endless_head_is_given_up(endless: bytes, step: int) -> None:
    """A head is not waited for beyond its limit, and no more is held than that and one read."""
    reader = AnswerReader()
    taken = 0
    while reader.fault is None:
        reader.feed(endless[taken : taken + step])
        taken += step
    assert isinstance(reader.fault, UpstreamInvalid)
    assert taken <= MAX_HEAD_BYTES + step


def test_framing_between_bytes_is_no_excess() -> None:
    """A long stream of small chunks has more framing than a head may have bytes; no limit is to the stream."""
    reader = AnswerReader()
    reader.feed(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    chunks = MAX_HEAD_BYTES // 5 * 2
    for _ in range(chunks):
        reader.feed(b"1\r\n")
        reader.feed(b"x\r\n")
    assert (chunks, None) == (len(reader.pieces), reader.fault)


def test_limits_are_limits() -> None:
    """A head just inside both limits is read."""
    fields = [("x" * 3, "v" * 200)] * MAX_HEADERS
    wire = b"HTTP/1.1 200 OK\r\n" + b"".join(f"{name}: {value}\r\n".encode() for name, value in fields) + b"\r\n"
    assert len(wire) < MAX_HEAD_BYTES
    reader = AnswerReader()
    reader.feed(wire)
    assert (200, fields, None) == (reader.status, reader.headers, reader.fault)


def test_a_header_is_found_by_its_name() -> None:
    """However it is spelt there; of several the last counts, and what is not there is empty."""
    reader = AnswerReader()
    reader.feed(b"HTTP/1.1 200 OK\r\nX-A:\t1 \r\nx-b: \xe4\r\nx-A: 2\r\n\r\n")
    assert ["2", "ä", ""] == [reader.header(name) for name in ("x-a", "x-b", "x-c")]


def test_news_is_what_somebody_may_wait_for() -> None:
    """A head, a piece of the body, the end, a fault; not a part of a head or of framing."""
    reader = AnswerReader()
    told = [
        reader.feed(piece)
        for piece in (
            b"HTTP/1.1 103 Hints\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-",
            b"encoding: chunked\r\n\r\n",
            b"4\r",
            b"\nab",
            b"cd",
            b"\r\n0\r\nx: ",
            b"y\r\n\r\n",
        )
    ]
    assert [False, False, True, False, True, True, False, True] == told
    reader.expect()
    assert reader.feed(b"what?")


def test_a_mistake_of_ours_is_not_taken_for_the_upstreams() -> None:
    """What our own callbacks raise by mistake comes out, instead of passing for broken HTTP."""

    class Mistaken(AnswerReader):
        def on_headers_complete(self) -> None:
            raise KeyError

    with pytest.raises(Exception, match="callback") as caught:
        Mistaken().feed(b"HTTP/1.1 200 OK\r\n\r\n")
    assert isinstance(caught.value.__context__, KeyError)
