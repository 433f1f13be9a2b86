"""Every way in which an upstream may answer, and what comes of it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import UpstreamError, UpstreamInvalid

Meet = Callable[..., Any]

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


async def test_a_request_goes_out_as_given(meet: Meet, post: Any) -> None:
    """Path, headers of the origin and of the request, and the body arrive; nothing else but what HTTP needs does."""
    requests = []

    async def serve(sock: Any) -> None:
        requests.append((await sock.head(), await sock.reader.readexactly(11)))
        await sock.send(OK)
        await sock.until_closed()

    async with meet(serve, headers={"Authorization": "Bearer key"}) as (connections, listener):
        await post(connections, b'{"a": "\xc3\xa4"}', accept="text/event-stream")
    expected = (
        "POST /v1/chat/completions HTTP/1.1\r\n"
        f"host: 127.0.0.1:{listener.port}\r\n"
        "user-agent: headrace\r\n"
        "accept-encoding: identity\r\n"
        "content-type: application/json\r\n"
        "authorization: Bearer key\r\n"
        "accept: text/event-stream\r\n"
        "content-length: 11\r\n"
        "\r\n"
    )
    assert [(expected.encode(), b'{"a": "\xc3\xa4"}')] == requests


async def test_a_whole_answer(meet: Meet, post: Any, say: Any) -> None:
    """Status, headers by lower-case names in their order, repeated ones too, and the body in one piece."""
    head = b"HTTP/1.1 429 Too Many\r\nRetry-After: 1 \r\nX-B:\t\xe4\r\nretry-after: 2\r\nContent-Length: 2\r\n\r\n"
    async with meet(say(head + b"ok")) as (connections, _):
        got = await post(connections)
    headers = [("retry-after", "1"), ("x-b", "ä"), ("retry-after", "2"), ("content-length", "2")]
    assert (429, headers, [b"ok"]) == (got.status, got.headers, got.pieces)


async def test_many_chunks_in_one_read_are_one_piece(meet: Meet, post: Any, say: Any) -> None:
    """What the network brings together stays together, without the framing."""
    chunks = b"".join(b"5\r\ndata%d\r\n" % (number % 10) for number in range(64)) + b"0\r\n\r\n"
    async with meet(say(CHUNKED + chunks)) as (connections, _):
        got = await post(connections)
        assert (1, 1) == (connections.open, connections.idle)
    assert [b"".join(b"data%d" % (number % 10) for number in range(64))] == got.pieces


async def test_byte_by_byte(meet: Meet, post: Any, say: Any) -> None:
    """However small the pieces of the network, the answer is the same."""
    whole = CHUNKED + b'4\r\nWiki\r\n7;a="b"\r\npedia i\r\nB\r\nn \r\nchunks.\r\n0\r\nx-end: 1\r\n\r\n'
    async with meet(say(*(whole[at : at + 1] for at in range(len(whole))))) as (connections, listener):
        for _ in range(2):
            assert b"Wikipedia in \r\nchunks." == (await post(connections)).body
        assert 1 == listener.seen


async def test_a_chunk_of_megabytes(meet: Meet, post: Any, say: Any) -> None:
    """A chunk of any size comes through whole, in pieces."""
    body = bytes(range(256)) * 4 * 4096
    async with meet(say(CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))) as (connections, _):
        got = await post(connections)
    assert body == got.body
    assert max(map(len, got.pieces)) < 600_000


@pytest.mark.parametrize("secure", [False, True])
async def test_a_reader_that_pauses_stops_the_upstream(
    meet: Meet, server_tls: Any, authority_file: str, secure: bool
) -> None:
    """While nobody takes the body, little of it is held and the upstream waits; then all of it comes."""
    block, blocks, sent = b"x" * 2**16, 1024, 0

    async def serve(sock: Any) -> None:
        nonlocal sent
        await sock.request()
        await sock.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (len(block) * blocks))
        for sent in range(1, blocks + 1):  # noqa: B007  # read from outside
            await sock.send(block)
        await sock.until_closed()

    tls = {"server_tls": server_tls, "verify": authority_file} if secure else {}
    async with meet(serve, **tls) as (connections, _), connections.post("/x", b"{}", headers={}) as answer:
        taken = len(await answer.piece())
        before = -1
        while sent > before:  # until a hundred rounds of the loop bring nothing any more
            before = sent
            for _ in range(100):
                await asyncio.sleep(0)
        assert sent < blocks
        assert answer._connection._reading_paused
        held = sum(map(len, answer._connection.answer.pieces))
        assert 2**16 < held < 2**20
        while piece := await answer.piece():
            taken += len(piece)
        assert len(block) * blocks == taken


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\ncontent-length: 7\r\n\r\n",
    ],
)
@pytest.mark.parametrize("apart", [True, False])
async def test_informational_answers_are_skipped(meet: Meet, post: Any, say: Any, interim: bytes, apart: bool) -> None:
    """A 1xx is no answer, and nothing of it is in the one that follows."""
    async with meet(say(interim, OK) if apart else say(interim + OK)) as (connections, listener):
        for _ in range(2):
            got = await post(connections)
            assert (200, [("content-length", "2")], b"ok") == (got.status, got.headers, got.body)
        assert 1 == listener.seen


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\ncontent-length: 77\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        CHUNKED + b"0\r\n\r\n",
    ],
)
async def test_answers_without_a_body(meet: Meet, post: Any, say: Any, answer: bytes) -> None:
    """They end with their head, and the connection serves the next request."""
    async with meet(say(answer)) as (connections, listener):
        for _ in range(2):
            got = await post(connections)
            assert [] == got.pieces
            assert answer.split()[1] == b"%d" % got.status
        assert 1 == listener.seen


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ],
)
async def test_an_answer_after_which_nothing_follows(meet: Meet, post: Any, say: Any, answer: bytes) -> None:
    """Where the upstream announces that it closes, we do so at once and open another."""
    async with meet(say(answer)) as (connections, listener):
        for number in (1, 2):
            assert b"ok" == (await post(connections)).body
            await listener.until(lambda it: it.open == 0)
            assert (number, 0) == (listener.seen, connections.open)


async def test_an_old_server_that_keeps_connections(meet: Meet, post: Any, say: Any) -> None:
    """HTTP/1.0 may say ``keep-alive``."""
    answer = b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok"
    async with meet(say(answer)) as (connections, listener):
        for _ in range(2):
            assert b"ok" == (await post(connections)).body
        assert 1 == listener.seen


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_an_answer_that_ends_with_its_connection(meet: Meet, post: Any, say: Any, version: bytes) -> None:
    """Without a length, the end of the connection is the end of the answer."""
    async with meet(say(b"HTTP/%b 200 OK\r\n\r\nall" % version, b" of it", close=True)) as (connections, listener):
        for number in (1, 2):
            assert b"all of it" == (await post(connections)).body
            assert number == listener.seen


async def test_an_answer_that_comes_before_the_request_is_all_there(meet: Meet, post: Any) -> None:
    """An upstream that refuses a body by its length is heard, however much of the body is still to go."""

    async def serve(sock: Any) -> None:
        await sock.head()
        await sock.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig")
        await sock.until_closed() if sock.number == 2 else await done.wait()

    done = asyncio.Event()
    async with meet(serve) as (connections, listener):
        got = await post(connections, b"x" * 2**26)
        assert (413, b"big", 0) == (got.status, got.body, connections.idle)
        got = await post(connections, b"x" * 2**26)
        assert (413, b"big", 2) == (got.status, got.body, listener.seen)
        done.set()


async def test_half_closed_after_the_answer(meet: Meet, post: Any) -> None:
    """An upstream that will send no more has answered all the same, and is not asked again."""

    async def serve(sock: Any) -> None:
        await sock.request()
        sock.writer.write(OK)
        sock.writer.write_eof()
        await sock.until_closed()

    async with meet(serve) as (connections, listener):
        for number in (1, 2):
            assert b"ok" == (await post(connections)).body
            await listener.until(lambda it: it.open == 0)
            assert (number, 0) == (listener.seen, connections.open)


async def test_an_answer_left_before_its_end_closes_the_connection(meet: Meet, say: Any) -> None:
    """Whoever leaves early, by an error or not, leaves no connection behind that brings the rest."""
    async with meet(say(CHUNKED + b"4\r\nhalf\r\n")) as (connections, listener):
        for number in (1, 2):
            with pytest.raises(UpstreamError, match="judged"):
                await _leave_early(connections)
            await listener.until(lambda it: it.open == 0)
            assert (number, 0) == (listener.seen, connections.open)


async def _leave_early(connections: Any) -> None:
    async with connections.post("/x", b"{}", headers={}) as answer:
        await answer.piece()
        raise UpstreamError("judged")


async def test_an_answer_that_is_all_there_need_not_be_taken(meet: Meet, say: Any, post: Any) -> None:
    """Where the end has come, the connection is good for the next answer, and nothing of the first is in it."""
    async with meet(say(OK)) as (connections, listener):
        async with connections.post("/x", b"{}", headers={}) as answer:
            assert 200 == answer.status
        assert [] == connections._pool._idle[0].answer.pieces
        assert b"ok" == (await post(connections)).body
        assert 1 == listener.seen


async def test_an_answer_is_read_inside_its_block_and_by_one(meet: Meet, say: Any) -> None:
    """A second reader, or one that comes late, is a mistake and is told so: it could see another's answer."""
    async with meet(say(CHUNKED)) as (connections, _):
        async with connections.post("/x", b"{}", headers={}) as answer:
            first = asyncio.ensure_future(answer.piece())
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="one at a time"):
                await answer.piece()
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
        with pytest.raises(RuntimeError, match="given back"):
            await answer.piece()


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("chat", {}),
        ("/a b", {}),
        ("/a\r\nx: y", {}),
        ("/a#b", {}),
        ("/ä", {}),
        ("/a", {"x": "a\r\ny: b"}),
        ("/a", {"x": "a\n"}),
        ("/a", {"x": "ä"}),
        ("/a", {"x: y\r\nz": "a"}),
        ("/a", {"": "a"}),
        ("/a", {"Content-Length": "7"}),
        ("/a", {"transfer-encoding": "chunked"}),
    ],
)
async def test_what_would_break_a_head_is_not_sent(meet: Meet, say: Any, path: str, headers: dict[str, str]) -> None:
    """A path or header that could end a line, or say how long the body is, is refused before anything goes out."""
    async with meet(say(OK)) as (connections, listener):
        with pytest.raises(ValueError, match=r"path|header|written by"):
            connections.post(path, b"{}", headers=headers)
        assert 0 == listener.seen


@pytest.mark.parametrize("writes", [(OK,), (CHUNKED, b"1\r\no\r\n", b"1\r\nk\r\n0\r\n\r\n")])
async def test_a_body_can_be_had_whole_within_bounds(meet: Meet, say: Any, writes: tuple[bytes, ...]) -> None:
    """In whatever pieces it comes; one that is longer is none, and ends its connection."""
    async with meet(say(*writes)) as (connections, _):
        async with connections.post("/x", b"{}", headers={}) as answer:
            assert b"ok" == await answer.whole(2)
        assert 1 == connections.idle
        with pytest.raises(UpstreamInvalid, match="longer than 1 bytes"):
            async with connections.post("/x", b"{}", headers={}) as answer:
                await answer.whole(1)
