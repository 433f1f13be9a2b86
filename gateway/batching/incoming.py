"""Bodies of requests for files and batches, and what is said where their database is away."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect, Request

from gateway.content_coding import decoder
from gateway.errors import BodyTooLarge, ClientGone, ConfigurationError, InvalidRequest, Overloaded, RequestTimeout
from gateway.stores.ledger_lost import LedgerLost

_RETRY_S = 2.0
LONGEST_S = 3600.0
"""The longest that a body takes, whatever it is."""


async def pieces_of(request: Request, *, most_bytes: int, silence_s: float) -> AsyncIterator[bytes]:
    """The body as it comes.

    Raises:
        BodyTooLarge: it is longer than ``most_bytes``.
        RequestTimeout: nothing came for ``silence_s``, or all of it takes too long.
        ClientGone: the client left while sending.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most_bytes:
        raise _too_large(most_bytes)
    incoming, received_bytes = aiter(request.stream()), 0
    deadline_s = asyncio.get_running_loop().time() + LONGEST_S
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


async def body_of(request: Request, *, most_bytes: int, silence_s: float) -> bytes:
    """All of the body, its content coding undone.

    Raises:
        HeadraceError: as above, or the coding is not one that we read.
    """
    inflater = decoder(",".join(request.headers.getlist("content-encoding")), most_bytes)
    async for piece in pieces_of(request, most_bytes=most_bytes, silence_s=silence_s):
        inflater.feed(piece)
    return inflater.finish()


@contextmanager
def reached() -> Iterator[None]:
    """What goes wrong with the database inside is told to the client, without the words that name it.

    Raises:
        Overloaded: it is away.
    """
    try:
        yield
    except (LedgerLost, ConfigurationError):
        raise Overloaded("files and batches cannot be reached now", retry_after_s=_RETRY_S) from None


def number_in(request: Request, name: str, *, usual: int, most: int) -> int:
    """A whole number from 1 to ``most`` in the query.

    Raises:
        InvalidRequest: it is none.
    """
    said = request.query_params.get(name)
    if said is None:
        return usual
    if not (said.isascii() and said.isdigit() and len(said) <= len(str(most)) and 1 <= int(said) <= most):
        raise InvalidRequest(f"{name} must be a whole number from 1 to {most}", param=name)
    return int(said)


def _too_large(most_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is longer than {most_bytes} bytes")
