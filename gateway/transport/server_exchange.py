"""The ``Exchange`` seam over a connection of our own protocol: no scope, no messages, no task that watches."""

import asyncio
from collections.abc import Awaitable
from typing import Any, ClassVar, Protocol

from msgspec import Struct
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl

from gateway.content_coding import Decoder, decoder
from gateway.errors import BodyTooLarge, ClientGone, HeadraceError, RequestTimeout
from gateway.exchange import RawHeaders
from gateway.ports import AT_ONCE
from gateway.transport.deadline import Deadline
from gateway.transport.response_heads import ResponseHeads
from gateway.transport.server_limits import ServerLimits
from gateway.types import Operation
from gateway.wire.passages import UPLOADS

_OF_THE_BODY = frozenset({b"content-encoding", b"content-length"})


class Connection(Protocol):
    """What an exchange needs of the connection that it came over."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    flow: FlowControl
    deadline: Deadline
    limits: ClassVar[ServerLimits]
    heads: ClassVar[ResponseHeads]

    @property
    def default_headers(self) -> RawHeaders:
        """The headers of every answer, the date among them."""
        ...

    def part(self) -> None:
        """Ends the connection after what was written."""
        ...

    def on_response_complete(self) -> None:
        """The answer is out."""
        ...


class ServerExchange(Struct, eq=False, weakref=True):
    """See ``Exchange``. ``keep_alive`` and ``response_complete`` are what uvicorn asks its own cycles for.

    Attributes:
        connection: where it came from and goes to.
        operation: what the path stands for.
        headers: the client's, names in lower case.
        expects: whether the client waits for ``100 Continue`` before it sends the body.
        chunks: whether the client knows chunked coding; a stream ends with the connection where it does not.
        keep_alive: whether the connection may be used again.
        plain: whether the body is known to have no content coding, and not to be too long.
        complete: whether all of the body is in ``pieces``, where it is not being decoded.
    """

    connection: Connection
    operation: Operation
    headers: RawHeaders
    expects: bool
    chunks: bool
    keep_alive: bool
    plain: bool = False
    pieces: list[bytes] = []
    complete: bool = False
    gone: bool = False
    started: bool = False
    streaming: bool = False
    response_complete: bool = False
    task: asyncio.Task[Any] | None = None
    _held_bytes: int = 0
    _inflater: Decoder | None = None
    _rest: asyncio.Future[None] | None = None
    _fault: HeadraceError | None = None
    _served: bool = False

    __repr__ = object.__repr__  # the client's key stands in its headers

    @property
    def plainly_kept(self) -> bool:
        """Whether the connection goes on behind it, and nothing was asked or wrong on the way."""
        return self.keep_alive and self.chunks and not self.expects and self._fault is None

    # ---- the seam ---------------------------------------------------------------------------------------------------

    async def body(self) -> bytes:
        """See ``Exchange.body``. From its end on, a hang-up cancels the task of the exchange."""
        if self.plain and self.complete and self._fault is None:
            self._served = True
            pieces = self.pieces
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        inflater = self._decoder()
        if self._fault is not None:
            raise self._fault
        pieces, self.pieces = self.pieces, []
        for piece in pieces:
            inflater.feed(piece)
        if not self.complete:
            await self._receive_rest(inflater)
        body = inflater.finish()
        self._served = True
        return body

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """See ``Exchange.answer``: one write."""
        if status == RequestTimeout.http_status:  # whatever else comes of that body, nobody waits for it
            self.keep_alive = False
        head = self._head(status, headers, b"content-length: %d\r\n" % len(body))
        self.connection.transport.write(head + body)
        self._finish()

    async def open(self, status: int, headers: RawHeaders) -> None:
        """See ``Exchange.open``."""
        self.streaming = True
        self.connection.transport.write(
            self._head(status, headers, b"transfer-encoding: chunked\r\n" if self.chunks else b"")
        )

    def write(self, data: bytes) -> Awaitable[None]:
        """See ``Exchange.write``: waits only where the client is behind."""
        if self.gone or not data:  # an empty chunk would be the last one
            return AT_ONCE
        connection = self.connection
        connection.transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self.chunks else data)
        return connection.flow.drain() if connection.flow.write_paused else AT_ONCE

    async def close(self) -> None:
        """See ``Exchange.close``."""
        self.streaming = False
        if self.chunks and not self.gone:
            self.connection.transport.write(b"0\r\n\r\n")
        self._finish()

    # ---- what the connection says -----------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """A piece of the body has come: it is decoded at once where it is waited for, and kept up to a limit else."""
        if self._inflater is not None:
            try:
                self._inflater.feed(data)
            except HeadraceError as error:
                self.fail(error)
        elif not (self._fault or self.response_complete):
            self.pieces.append(data)
            self._held_bytes += len(data)
            if self._held_bytes > HIGH_WATER_LIMIT:
                self.connection.flow.pause_reading()

    def close_body(self) -> None:
        """The body has come to its end."""
        self.complete = True
        if self._rest is not None and not self._rest.done():
            self._rest.set_result(None)
            self.connection.deadline.clear()

    def fail(self, fault: HeadraceError) -> None:
        """There will be no body: ``body`` raises the fault."""
        self._fault = fault
        self._inflater = None
        self.pieces.clear()
        if self._rest is not None and not self._rest.done():
            self._rest.set_exception(fault)
            self.connection.deadline.clear()

    def expire(self) -> bool:
        """Whether the body was waited for; it is no longer."""
        if self._rest is None:
            return False
        self.fail(RequestTimeout(f"the body did not arrive within {self.connection.limits.body_timeout_s:g} s"))
        return True

    def hang_up(self) -> None:
        """The client has left; who leaves after the answer has missed nothing."""
        if self.gone or self.response_complete:
            return
        self.gone = True
        if self._served and self.task is not None:
            self.task.cancel()
        else:
            self.fail(ClientGone("the client hung up while sending its body"))

    def abandon(self) -> bool:
        """Ends an exchange whose task is over; whether an answer was left unfinished."""
        self.task = None
        self.pieces.clear()
        if self.response_complete:
            return False
        self.response_complete = True
        return not self.gone

    # ---- details ----------------------------------------------------------------------------------------------------

    def _decoder(self) -> Decoder:
        codings: list[bytes] = []
        limits = self.connection.limits
        max_bytes = limits.max_body_bytes
        if self.operation in UPLOADS:
            max_bytes = max(max_bytes, limits.max_upload_bytes)
        too_large = False
        for name, value in self.headers:
            if name not in _OF_THE_BODY:
                continue
            if name == b"content-encoding":
                codings.append(value)
            else:
                too_large = int(value) > max_bytes  # the parser has seen to it that this is a number, and the only one
        inflater = decoder(b",".join(codings).decode("latin-1"), max_bytes)
        if too_large:
            raise BodyTooLarge(f"the body is longer than {max_bytes} bytes")
        return inflater

    async def _receive_rest(self, inflater: Decoder) -> None:
        connection = self.connection
        self._inflater = inflater
        self._rest = connection.loop.create_future()
        connection.deadline.set(connection.limits.body_timeout_s)
        if self.expects:
            self.expects = False
            connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        connection.flow.resume_reading()
        try:
            await self._rest
        except asyncio.CancelledError:
            connection.deadline.clear()
            raise
        finally:  # the deadline may be the next request's by now
            self._inflater = self._rest = None

    def _head(self, status: int, headers: RawHeaders, framing: bytes) -> bytes:
        self.started = True
        if not self.complete and (self.expects or self._fault is not None):
            self.keep_alive = False  # where the next request begins is anybody's guess
        if not self.keep_alive:
            framing += b"connection: close\r\n"
        connection = self.connection
        return connection.heads.head(status, headers, framing, connection.default_headers)

    def _finish(self) -> None:
        self.response_complete = True
        if self.gone:
            return
        if not self.keep_alive:
            self.connection.part()
        self.connection.on_response_complete()
