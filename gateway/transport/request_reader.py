"""Requests as they arrive: httptools' callbacks, the limits of a head, and what is left out of a request.

The half of ``StrictProtocol`` that reads; see there for what it does otherwise than uvicorn.
"""

from abc import abstractmethod
from asyncio import AbstractEventLoop
from enum import Enum, auto
from typing import Any, ClassVar

import httptools
from uvicorn.config import Config
from uvicorn.server import ServerState

from gateway.errors import HeadersTooLarge, HeadraceError, InvalidRequest
from gateway.transport.deadline import Deadline
from gateway.transport.http_protocol import HttpProtocol
from gateway.transport.request_framing import MARKED, UriTooLong, framing_fault
from gateway.transport.server_limits import ServerLimits

_FRAME_OF_A_CHUNK_BYTES = 32
"""What a chunk may have around its data without being counted: its size, short extensions, line ends."""


class Stage(Enum):
    """Where the reader stands: between two requests, in a head, or in a body."""

    BETWEEN = auto()
    HEAD = auto()
    BODY = auto()


_BETWEEN, _HEAD, _BODY = Stage  # as globals: an attribute of an enum costs more than a callback of the parser


class RequestReader(HttpProtocol):
    """Reads requests. While it is ``deaf``, what arrives is dropped."""

    limits: ClassVar[ServerLimits]
    cycle: Any  # uvicorn's own, or what serves in its place

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.deadline = Deadline(self.loop, self.overdue)
        self.deaf = False
        self.stage = Stage.BETWEEN
        self._fresh = False
        self._counted_bytes = 0
        self._hosts = 0
        self._transfer_encoding: bytes | None = None
        self._declined_upgrade = False
        self._replayed_headers: list[tuple[bytes, bytes]] | None = None

    # ---- what becomes of it -----------------------------------------------------------------------------------------

    @abstractmethod
    def dispatch(self, version: str, fault: HeadraceError | None) -> None:
        """Takes a request whose head is complete, and has a ``fault`` or none.

        Raises:
            HeadraceError: the request is not taken.
        """

    @abstractmethod
    def take_body(self, body: bytes) -> None:
        """Takes a piece of the body of the last request."""

    @abstractmethod
    def end_request(self) -> None:
        """The last request is complete."""

    @abstractmethod
    def refuse(self, error: HeadraceError) -> None:
        """Answers what is no request, or the rest of one; the reader is deaf from then on."""

    @abstractmethod
    def drop(self, dropped_bytes: int) -> None:
        """So many bytes came while the reader was deaf."""

    @abstractmethod
    def overdue(self) -> None:
        """The deadline has come."""

    # ---- the parser's callbacks -------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self.stage = _HEAD
        self._fresh = True
        self._counted_bytes = self._hosts = 0
        self._transfer_encoding = None
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field; what comes after the head are trailers, which say nothing that we want to know."""
        if self.stage is not _HEAD:
            return
        name = name.lower()
        self.headers.append((name, value))
        if name in MARKED:
            self._mark(name, value)

    def on_headers_complete(self) -> None:
        """The head is there."""
        if self.parser.should_upgrade() and not self._should_upgrade():
            self._declined_upgrade = True
            return
        if self._replayed_headers is not None:
            self.headers, self._replayed_headers = self._replayed_headers, None
        self.deadline.clear()
        version = self.parser.get_http_version()
        self.dispatch(version, self._fault(version))
        self.stage = _BODY
        self._fresh = True
        self._counted_bytes = 0

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._counted_bytes -= len(body)
        self.take_body(body)

    def on_chunk_header(self) -> None:
        """The head of a chunk."""
        self._counted_bytes -= _FRAME_OF_A_CHUNK_BYTES

    def on_message_complete(self) -> None:
        """The end of a request."""
        if not self._declined_upgrade:
            self.stage = _BETWEEN
            self.end_request()

    # ---- what arrives -----------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parses, and answers what is no request."""
        if self.transport.is_closing():
            return
        if self.deaf:
            self.drop(len(data))
            return
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            if not self.deaf:
                self.refuse(self._surplus() or _reason(error))
        else:
            if self.stage is not _BETWEEN and not self.deaf:
                self._count(len(data))

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                if not self._declined_upgrade:
                    self.deadline.cancel()
                    self.handle_websocket_upgrade()
                    return
                data = self._without_upgrade() + data[upgrade.args[0] :]
            else:
                return

    def _without_upgrade(self) -> bytes:
        """The head once more, without the wish: httptools would take the body for the new protocol's first bytes."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            raise httptools.HttpParserError("this is no proxy")
        self._declined_upgrade = False
        lines = [b"%b %b HTTP/%b" % (method, self.url, self.parser.get_http_version().encode())]
        lines += [b"%b:%b" % header for header in self.headers if header[0] != b"upgrade"]
        self._replayed_headers = self.headers
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return b"\r\n".join((*lines, b"", b""))

    def _mark(self, name: bytes, value: bytes) -> None:
        if name == b"host":
            self._hosts += 1
        elif name == b"expect":
            self.expect_100_continue |= value.lower() == b"100-continue"
        else:
            before = self._transfer_encoding
            self._transfer_encoding = value if before is None else b"%b, %b" % (before, value)

    def _fault(self, version: str) -> HeadraceError | None:
        if len(self.headers) > self.limits.max_headers:
            return HeadersTooLarge(f"there are more than {self.limits.max_headers} headers")
        if len(self.url) > self.limits.max_header_bytes:
            return UriTooLong(f"the request line is longer than {self.limits.max_header_bytes} bytes")
        return framing_fault(version, self._hosts, self._transfer_encoding)

    def _count(self, arrived_bytes: int) -> None:
        """Holds a request that is still on its way against the limits; called after each read.

        Of the read in which a head or body began nobody knows how much was its own. It is not counted, so that up to
        one read more than the limit may be there.
        """
        if self._fresh:
            self._fresh = False
            if self.stage is _HEAD:
                self.deadline.set(self.limits.head_timeout_s)
        else:
            self._counted_bytes += arrived_bytes
        over = self._counted_bytes > self.limits.max_header_bytes
        surplus = self._surplus(over=over)
        if surplus is not None:
            self.refuse(surplus)
        elif over and self._transfer_encoding is not None:
            self.refuse(InvalidRequest("the chunks of the body carry more around them than this server reads"))

    def _surplus(self, *, over: bool = False) -> HeadraceError | None:
        """What is wrong with a head that is over its limits, also where the rest of it is no HTTP."""
        if self.stage is _HEAD and (over or len(self.headers) > self.limits.max_headers):
            kind = HeadersTooLarge if self.headers else UriTooLong
            return kind("the request's head is longer than this server reads")
        return None


def _reason(error: httptools.HttpParserError) -> HeadraceError:
    """What to tell the client: our own reason where a callback of ours found it, else that this is no HTTP."""
    if isinstance(error.__context__, HeadraceError):
        return error.__context__
    return InvalidRequest("this is not a valid HTTP request")
