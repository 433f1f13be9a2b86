"""The seam between HTTP and the pipeline: one request in, one answer out.

``endpoints.py`` implements it over ASGI; a faster transport can take its place without touching the pipeline.
"""

from collections.abc import Awaitable, Sequence
from typing import Protocol, overload

from gateway.types import Operation

RawHeaders = Sequence[tuple[bytes, bytes]]


class Notes:
    """What a door has read of header fields, ``said``, kept for as long as the same ones may come again."""

    __slots__ = ("said",)

    def __init__(self) -> None:
        self.said: object = None


class RepeatedHeaders(list[tuple[bytes, bytes]]):
    """Header fields that have come before on their connection, but for the length of the body; ``notes`` are of all."""

    __slots__ = ("notes",)

    notes: Notes


class HeaderLines(Sequence[tuple[bytes, bytes]]):
    """Header fields of an answer as they go out: lines, each with its end. Taken apart only where somebody looks.

    Attributes:
        known: lines that many answers begin with, out of ``laid``.
        own: lines of this answer, of which nobody has seen yet that no value has a line break in it.
        own_lines: how many lines ``own`` should be.
    """

    __slots__ = ("known", "own", "own_lines")

    def __init__(self, known: bytes, own: bytes, own_lines: int) -> None:
        self.known = known
        self.own = own
        self.own_lines = own_lines

    def __len__(self) -> int:
        return len(self._fields())

    @overload
    def __getitem__(self, index: int) -> tuple[bytes, bytes]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[bytes, bytes]]: ...
    def __getitem__(self, index: int | slice) -> tuple[bytes, bytes] | Sequence[tuple[bytes, bytes]]:
        return self._fields()[index]

    def _fields(self) -> Sequence[tuple[bytes, bytes]]:
        parts = [line.partition(b": ") for line in (self.known + self.own).split(b"\r\n")[:-1]]
        return [(name, value) for name, _, value in parts]


def laid(headers: RawHeaders) -> bytes:
    """Header fields as they go out.

    Raises:
        RuntimeError: a line break in a name or value, which would be a header or an answer of somebody else's.
    """
    if type(headers) is HeaderLines:
        known, own, count = headers.known, headers.own, headers.own_lines
    else:
        known, own, count = b"", b"\r\n".join([*map(b": ".join, headers), b""]), len(headers)
    if len(own.translate(None, b"\r\n")) != len(own) - 2 * count:
        raise RuntimeError("a header of an answer has a line break in it")
    return known + own


class Exchange(Protocol):
    """One HTTP exchange. ``headers`` are the client's, names in lower case, in the order in which they came.

    ``gone`` turns true when the client hangs up; the task that serves the exchange is then cancelled. ``started`` is
    true once a status line is out: from there on an error can only be told in band, while ``streaming``, which is true
    from ``open`` to ``close``.
    """

    operation: Operation
    headers: RawHeaders

    @property
    def gone(self) -> bool:
        """Whether the client has hung up."""
        ...

    @property
    def started(self) -> bool:
        """Whether a status line is out."""
        ...

    @property
    def streaming(self) -> bool:
        """Whether a streamed answer is under way."""
        ...

    async def body(self) -> bytes:
        """The whole body, its content coding undone.

        Raises:
            BodyTooLarge: over the limit, after decoding.
            UnsupportedMediaType: a content coding that we do not read.
            RequestTimeout: it did not come in time.
            ClientGone: the client left while sending.
        """
        ...

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """Sends a whole answer."""
        ...

    async def open(self, status: int, headers: RawHeaders) -> None:
        """Begins a streamed answer."""
        ...

    def write(self, data: bytes) -> Awaitable[None]:
        """Sends a piece; to be awaited until the client can take more: ``AT_ONCE`` where it can already."""
        ...

    async def close(self) -> None:
        """Ends a streamed answer."""
        ...


class Through:
    """An exchange in front of another, ``exchange``, to which all goes on: for who watches or changes a part of it."""

    __slots__ = ("_exchange", "headers", "operation")

    def __init__(self, exchange: Exchange) -> None:
        self.operation: Operation = exchange.operation
        self.headers: RawHeaders = exchange.headers
        self._exchange = exchange

    @property
    def gone(self) -> bool:
        """See ``Exchange.gone``."""
        return self._exchange.gone

    @property
    def started(self) -> bool:
        """See ``Exchange.started``."""
        return self._exchange.started

    @property
    def streaming(self) -> bool:
        """See ``Exchange.streaming``."""
        return self._exchange.streaming

    async def body(self) -> bytes:
        """See ``Exchange.body``."""
        return await self._exchange.body()

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """See ``Exchange.answer``."""
        await self._exchange.answer(status, headers, body)

    async def open(self, status: int, headers: RawHeaders) -> None:
        """See ``Exchange.open``."""
        await self._exchange.open(status, headers)

    def write(self, data: bytes) -> Awaitable[None]:
        """See ``Exchange.write``."""
        return self._exchange.write(data)

    async def close(self) -> None:
        """See ``Exchange.close``."""
        await self._exchange.close()
