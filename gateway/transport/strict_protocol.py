"""HTTP/1.1 for every route: uvicorn's protocol, stricter about where a request ends and how long it may take.

What an application sees is what uvicorn shows it, save for this:

* a request whose end somebody else may see elsewhere is refused (see ``request_framing``), trailers are left out, and
  an ``Upgrade`` that is not taken leaves the request's body its body;
* ``Expect: 100-continue`` ends the connection with the answer, since a client that was answered without the go-ahead
  may send its body or not;
* a head is held against its limits while it arrives (431, 414) and must be complete in time (408);
* an error that ends the connection waits for the answers that are due before it, and the client gets the time to read
  it: the connection is closed for writing first;
* a client that does not take its answer is not read from, and its next request is not begun, until it does; one that
  takes nothing for as long as a connection may be idle is cut off, one that is merely slow is not. Behind TLS of our
  own, what leaves is seen less finely: in the portions in which that takes an answer;
* a client that closes its side has left, also while nothing is read from it. A client that only half-closed cannot be
  told from one that is gone, and work for nobody costs money: it gets no answer, even where its request was complete.
"""

from asyncio import AbstractEventLoop, Transport
from typing import Any, ClassVar, cast

from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from gateway.attempt.answer_headers import error_headers
from gateway.door import new_request_id
from gateway.errors import HeadraceError, RequestTimeout
from gateway.transport.hang_up_watch import WatchedFlowControl
from gateway.transport.request_reader import RequestReader, Stage
from gateway.transport.response_heads import ResponseHeads
from gateway.wire.openai_errors import error_body

_BETWEEN, _BODY = Stage.BETWEEN, Stage.BODY  # see RequestReader
_FAREWELL_S = 2.0
"""How long a client may go on sending what is not read, so that it can read why."""
_FAREWELL_BYTES = 256 * 1024
"""How much it may send in that time: more than was under way when it was refused. In a body, as much as that may be."""
_FLUSH_S = 30.0
"""How long the end of an answer may wait for the client to read any of it."""


class StrictProtocol(RequestReader):
    """See above. A subclass sets ``limits`` and ``heads``, and may serve requests itself.

    ``active`` is the cycle whose answer is under way, ``cycle`` that of the last request that came.
    """

    heads: ClassVar[ResponseHeads]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.active: Any = None
        self._refusal: HeadraceError | None = None
        self._parted = self._behind = False
        self._dropped_bytes = self._unsent_bytes = 0
        self._reader_s = 0.0

    # ---- the connection ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begins; a client that says nothing is let go like one that has nothing more to say."""
        super().connection_made(transport)
        self.flow = WatchedFlowControl(transport, self.loop, self._left_unread)
        self.deadline.set(self.timeout_keep_alive)

    def eof_received(self) -> None:
        """The client has left: the transport closes itself, but says so only when all is written."""
        self.client_left()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has left, or we have."""
        self.client_left()
        self.deadline.end()
        cast("WatchedFlowControl", self.flow).end()
        super().connection_lost(exc)

    def client_left(self) -> None:
        """Nobody is there to be served: the place where a subclass ends its own work. Called once or more."""

    def part(self) -> None:
        """Ends the connection after what was written. What the client still sends is taken, and not looked at.

        Closing with bytes unread would reset the connection, and with it take away the answer that was not read yet.
        """
        self.deaf = self._parted = True
        if self.stage is Stage.BETWEEN or not self.transport.can_write_eof():
            self.close()
        else:
            self.flow.resume_reading()
            self.transport.write_eof()
            self.deadline.set(_FAREWELL_S)

    def close(self) -> None:
        """Closes after what was written; a client that does not read it is cut off in the end."""
        self.transport.close()
        self._wait_for_reader(_FLUSH_S)

    def drop(self, dropped_bytes: int) -> None:
        """See ``RequestReader.drop``."""
        self._dropped_bytes += dropped_bytes
        in_body_bytes = self.limits.max_body_bytes if self.stage is Stage.BODY else 0
        if not self._parted:
            self.flow.pause_reading()  # until the answers that are due are out
        elif self._dropped_bytes > max(_FAREWELL_BYTES, in_body_bytes):
            self.transport.abort()

    def resume_writing(self) -> None:
        """The client has taken what it was sent: the next request's turn, where that has waited for it."""
        super().resume_writing()
        if self._behind and not self.transport.is_closing():
            self._behind = False
            if self.stage is Stage.HEAD:
                self.deadline.set(self.limits.head_timeout_s)
            else:
                self.deadline.clear()
            self._go_on()

    def overdue(self) -> None:
        """Somebody was waited for in vain."""
        if self._behind or self.transport.is_closing():
            if self.transport.get_write_buffer_size() < self._unsent_bytes:
                self._wait_for_reader(self._reader_s)
            else:
                self.transport.abort()
        elif self.stage is Stage.HEAD and not self.deaf:
            self.refuse(RequestTimeout(f"the headers did not arrive within {self.limits.head_timeout_s:g} s"))
        else:
            self.close()

    def _wait_for_reader(self, seconds: float) -> None:
        """Cuts the client off when it takes nothing of what was written for so long."""
        self._reader_s = seconds
        self._unsent_bytes = self.transport.get_write_buffer_size()
        self.deadline.set(seconds)

    def _left_unread(self) -> None:
        self.client_left()
        self.close()

    # ---- to the application, as uvicorn does it ---------------------------------------------------------------------

    def dispatch(self, version: str, fault: HeadraceError | None) -> None:
        """See ``RequestReader.dispatch``."""
        del version
        if fault is not None:
            raise fault
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        HttpToolsProtocol.on_message_begin(self)  # makes the scope, which other requests do without
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        HttpToolsProtocol.on_headers_complete(self)
        if expects and self.cycle is not None:
            self.cycle.keep_alive = False

    def take_body(self, body: bytes) -> None:
        """See ``RequestReader.take_body``."""
        HttpToolsProtocol.on_body(self, body)

    def end_request(self) -> None:
        """See ``RequestReader.end_request``."""
        if self.active is None:  # answered before its end
            self.deadline.set(self.timeout_keep_alive)
        HttpToolsProtocol.on_message_complete(self)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self.active = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """An answer is out: the next one's turn, or time to wait for a request, once the client has taken it."""
        self.active = None
        self.server_state.total_requests += 1
        if self._parted:
            return
        if self.transport.is_closing():
            if self.transport.get_write_buffer_size():
                self._wait_for_reader(_FLUSH_S)
        elif self.flow.write_paused:
            self._behind = True
            self.flow.pause_reading()
            self._wait_for_reader(self.timeout_keep_alive)
        else:
            self._go_on()

    def _go_on(self) -> None:
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._refusal is not None:
            self._say(self._refusal)
        elif self.stage is _BODY:
            self.deadline.set(self.limits.body_timeout_s)
        elif self.stage is _BETWEEN:
            self.deadline.set(self.timeout_keep_alive)

    # ---- refusals ---------------------------------------------------------------------------------------------------

    def refuse(self, error: HeadraceError) -> None:
        """See ``RequestReader.refuse``. Answers in its turn, and ends the connection: all sense of place is lost."""
        self.deaf = True
        if self.stage is Stage.BODY:
            self.break_body(error)
        else:
            self._say_in_turn(error)

    def break_body(self, error: HeadraceError) -> None:
        """The last request's body is not what it should be: that is its answer, where it has none yet."""
        cycle = self.cycle
        if self.active not in {None, cycle}:
            self.pipeline.popleft()
            self._say_in_turn(error)
        elif cycle.response_started:
            self.close()
        else:
            cycle.disconnected = True
            cycle.message_event.set()
            self._say(error)

    def _say_in_turn(self, error: HeadraceError) -> None:
        if self.active is None:
            self._say(error)
        else:
            self._refusal = error
            self.deadline.clear()
            self.flow.pause_reading()

    def _say(self, error: HeadraceError) -> None:
        self._refusal = None
        body = error_body(error)
        framing = b"content-length: %d\r\nconnection: close\r\n" % len(body)
        headers = error_headers(new_request_id(), error)
        head = self.heads.head(error.http_status, headers, framing, self.server_state.default_headers)
        self.transport.write(head + body)
        self.part()
