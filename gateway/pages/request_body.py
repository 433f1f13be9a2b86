"""Bodies of requests to pages: as they come, or whole, within bounds of length and time."""

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request

from gateway.content_coding import decoder
from gateway.errors import BodyTooLarge, ClientGone, RequestTimeout

LONGEST_S = 3600.0
"""The longest that a body takes, where a page does not say."""


async def pieces_of(
    request: Request, *, most_bytes: int, silence_s: float, longest_s: float = LONGEST_S
) -> AsyncIterator[bytes]:
    """The body as it comes.

    Raises:
        BodyTooLarge: it is longer than ``most_bytes``.
        RequestTimeout: nothing came for ``silence_s``, or all of it takes longer than ``longest_s``.
        ClientGone: the client left while sending.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most_bytes:
        raise _too_large(most_bytes)
    incoming, received_bytes = aiter(request.stream()), 0
    deadline_s = asyncio.get_running_loop().time() + longest_s
    while True:
        try:
            async with asyncio.timeout_at(min(asyncio.get_running_loop().time() + silence_s, deadline_s)):
                piece = await anext(incoming)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise RequestTimeout("the body did not arrive in time") from None
        except ClientDisconnect:
            raise ClientGone("the client hung up while sending its body") from None
        received_bytes += len(piece)
        if received_bytes > most_bytes:
            raise _too_large(most_bytes)
        yield piece


async def body_of(request: Request, *, most_bytes: int, silence_s: float, longest_s: float = LONGEST_S) -> bytes:
    """All of the body, its content coding undone.

    Raises:
        UnsupportedMediaType: the coding is not one that we read.
        InvalidRequest: the body is not of the coding that it names.
        HeadraceError: as ``pieces_of``.
    """
    inflater = decoder(",".join(request.headers.getlist("content-encoding")), most_bytes)
    async for piece in pieces_of(request, most_bytes=most_bytes, silence_s=silence_s, longest_s=longest_s):
        inflater.feed(piece)
    return inflater.finish()


def _too_large(most_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is longer than {most_bytes} bytes")
