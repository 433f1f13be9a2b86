"""The same for requests' bodies: however they come, whatever they are coded in, and where they must end."""

import gzip
import zlib
from collections.abc import Callable
from typing import Any

import pytest
import zstandard

from tests.integration.seams import SEAMS, choose_seam

CHAT = b'{"model":"fake","messages":[{"role":"user","content":"hi"}]}'
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\n"
BODY_LIMIT = 4096

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.fixture(params=SEAMS, autouse=True)
def _seam(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_seam(request.param, monkeypatch)


@pytest.fixture
async def small(start_gateway: Any) -> Any:
    """A gateway with tight limits."""
    return await start_gateway(max_body_bytes=BODY_LIMIT, max_header_bytes=2048, body_timeout_s=0.05)


async def test_the_go_ahead_comes_when_the_body_is_wanted(start_gateway: Any) -> None:
    """``Expect: 100-continue``: no go-ahead without a key, one with it, then the answer."""
    front = await start_gateway({"locked": True})
    expecting = HEAD + b"expect: 100-continue\r\ncontent-length: %d\r\n" % len(CHAT)
    stranger = await front.raw()
    await stranger.send(expecting + b"\r\n")
    assert 401 == (await stranger.head()).status
    client = await front.raw()
    await client.send(expecting + b"authorization: Bearer sk-acme-0123456789\r\n\r\n")
    assert 100 == (await client.head()).status
    await client.send(CHAT)
    assert 200 == (await client.answer()).status


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_body_in_chunks(running: Any, size: int) -> None:
    """A body in chunks of any size, with extensions and a trailer, is read like any other."""
    client = await running.raw()
    pieces = [CHAT[at : at + size] for at in range(0, len(CHAT), size)]
    await client.send(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    await client.send(*(b"%x;a=b\r\n%b\r\n" % (len(piece), piece) for piece in pieces), b"0\r\nx-t: v\r\n\r\n")
    assert 200 == (await client.answer()).status


@pytest.mark.parametrize("coding", COMPRESSORS)
async def test_coded_bodies(small: Any, coding: str) -> None:
    """A coded body is decoded, also when it comes in many pieces; it is the decoded size that is limited."""
    at_limit = CHAT + b" " * (BODY_LIMIT - len(CHAT))
    packed = COMPRESSORS[coding](at_limit)
    client = await small.raw()
    head = HEAD + b"content-encoding: %b\r\ncontent-length: %d\r\n\r\n" % (coding.encode(), len(packed))
    await client.send(head, *(packed[at : at + 9] for at in range(0, len(packed), 9)))
    assert 200 == (await client.answer()).status
    response = await small.post(COMPRESSORS[coding](at_limit + b" "), headers={"content-encoding": coding})
    assert 413 == response.status_code


@pytest.mark.parametrize("coding", COMPRESSORS)
async def test_a_bomb_is_refused(running: Any, coding: str) -> None:
    """A body that would decode to a hundred megabytes is refused."""
    bomb = COMPRESSORS[coding](bytes(100 << 20))
    response = await running.post(bomb, headers={"content-encoding": coding})
    assert (413, "request_too_large") == (response.status_code, response.json()["error"]["code"])


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ("content-encoding: gzip\r\n", CHAT, 400),
        ("content-encoding: br\r\n", CHAT, 415),
        ("content-encoding: gzip, gzip\r\n", CHAT, 415),
        ("content-encoding: gzip\r\n", gzip.compress(CHAT)[:-1], 400),
        ("x-long: " + "v" * 2048 + "\r\n", CHAT, 431),
        ("", b" " * (BODY_LIMIT + 1), 413),
    ],
)
async def test_limits_and_codings_are_on_the_ledger(small: Any, headers: str, body: bytes, status: int) -> None:
    """What is refused for its headers or body has an envelope and exactly one entry."""
    client = await small.raw()
    await client.post(body, headers=headers)
    answer = await client.answer()
    assert status == answer.status
    assert answer.json["error"]["message"]
    assert ("rejected", status) == ((row := await small.row())["status"], row["http_status"])


async def test_a_body_that_does_not_come_is_a_408(small: Any) -> None:
    """A body that stops on its way ends in 408, an entry, and the connection's end."""
    client = await small.raw()
    await client.send(HEAD + b'content-length: 100\r\n\r\n{"mod')
    answer = await client.answer()
    assert (408, "close") == (answer.status, answer.header("connection"))
    assert b"" == await client.until_closed()
    assert ("rejected", 408) == ((row := await small.row())["status"], row["http_status"])


async def test_leaving_while_sending(small: Any, eventually: Any) -> None:
    """A client that leaves in the middle of its body is on the ledger as gone."""
    client = await small.raw()
    await client.send(HEAD + b'content-length: 100\r\n\r\n{"mod')
    await eventually(lambda: small.gateway.pipeline.running == 1)
    client.hang_up()
    assert ("client_gone", 499) == ((row := await small.row())["status"], row["http_status"])
