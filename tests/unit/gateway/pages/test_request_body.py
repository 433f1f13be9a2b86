"""Bodies of requests to pages: bounds of length and time, content codings, hang-ups."""

import asyncio
import gzip
from collections.abc import Iterable, MutableMapping
from typing import Any

import pytest
from starlette.requests import Request

from gateway.errors import BodyTooLarge, ClientGone, HeadraceError, RequestTimeout, UnsupportedMediaType
from gateway.pages.request_body import body_of

Message = MutableMapping[str, Any]


def sent(*pieces: bytes) -> list[Message]:
    """The messages of a client that sends all of a body."""
    more: list[Message] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    return [*more, {"type": "http.request"}]


def request(messages: Iterable[Message], **headers: str) -> Request:
    """A request whose client is silent once all ``messages`` have come."""
    coming = iter(messages)

    async def receive() -> Message:
        for message in coming:
            return message
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": named}, receive)


async def body(asked: Request, *, silence_s: float = 60.0, longest_s: float = 60.0) -> bytes:
    """Its body, of 8 bytes at most."""
    return await body_of(asked, most_bytes=8, silence_s=silence_s, longest_s=longest_s)


async def test_a_body_is_put_together_from_its_pieces() -> None:
    """It may be as long as the bound, however it is cut."""
    assert b"12345678" == await body(request(sent(b"1234", b"", b"5678")))


async def test_a_content_coding_is_undone() -> None:
    """The bound holds for what it decodes to, too."""
    small, large = gzip.compress(b"{}"), gzip.compress(b"x" * 1000)
    assert b"{}" == await body_of(request(sent(small), content_encoding="gzip"), most_bytes=999, silence_s=60.0)
    with pytest.raises(BodyTooLarge):
        await body_of(request(sent(large), content_encoding="gzip"), most_bytes=999, silence_s=60.0)


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (BodyTooLarge, request([], content_length="9")),
        (BodyTooLarge, request(sent(b"12345678", b"9"))),
        (UnsupportedMediaType, request(sent(b"x"), content_encoding="br")),
        (ClientGone, request([{"type": "http.disconnect"}])),
    ],
)
async def test_a_body_that_cannot_be_taken_is_refused(error: type[HeadraceError], asked: Request) -> None:
    """By its length as soon as that is known, by its coding, and where nobody is left to answer."""
    with pytest.raises(error):
        await body(asked)


@pytest.mark.parametrize("bounds", [{"silence_s": 0.0}, {"longest_s": 0.0}])
async def test_a_body_that_does_not_come_in_time_is_refused(bounds: dict[str, float]) -> None:
    """Nobody waits for a silent client, nor for one that never comes to an end."""
    with pytest.raises(RequestTimeout):
        await body(request([]), **bounds)
