"""The server's end of the hot path: a protocol class for uvicorn's ``http`` setting.

Requests on the inference routes go from httptools' callbacks straight into the pipeline, without an ASGI scope, without
messages, and without a task that watches for hang-ups: the connection itself says when the client leaves. One whose
head is the same as before on its connection goes there from the bytes that were read (see ``known_head``). Every other
route reaches the ASGI application by uvicorn's own code (see ``strict_protocol`` for where HTTP is read more strictly).
"""

import logging
import urllib.parse
from typing import Any, ClassVar, Protocol

import httptools
from uvicorn._types import ASGI3Application

from gateway.endpoints import OPERATIONS
from gateway.errors import HeadraceError
from gateway.exchange import Exchange, RawHeaders
from gateway.transport.known_head import KnownHead
from gateway.transport.request_reader import Stage
from gateway.transport.response_heads import ResponseHeads
from gateway.transport.server_exchange import ServerExchange
from gateway.transport.server_limits import ServerLimits
from gateway.transport.strict_protocol import StrictProtocol
from gateway.types import Operation
from gateway.wire.formats import FORMATS
from gateway.wire.passages import UPLOADS

_BY_TARGET = {path.encode("ascii"): operation for path, operation in OPERATIONS.items()}

_MOST_HEADS = 8
"""How many heads of one connection are looked at in order to know them again."""
_BETWEEN, _BODY = Stage.BETWEEN, Stage.BODY

_log = logging.getLogger(__name__)


class Inference(Protocol):
    """What serves the exchanges: ``gateway.pipeline.Pipeline``."""

    async def handle(self, exchange: Exchange) -> None:
        """Serves one exchange to its end."""
        ...


def protocol_class(inference: Inference, limits: ServerLimits) -> "type[InferenceProtocol]":
    """The class to give to uvicorn: ``inference`` serves each request in a task of its own."""
    fields = {"limits": limits, "heads": ResponseHeads(), "inference": inference}
    return type("ServingProtocol", (InferenceProtocol,), fields)


class InferenceProtocol(StrictProtocol):
    """One connection. Made by uvicorn, of a class that ``protocol_class`` has made."""

    inference: ClassVar[Inference]
    _known: KnownHead | None = None
    _heads_seen = 0
    _owed_bytes = 0  # of the body of a request whose head was known

    @property
    def default_headers(self) -> RawHeaders:
        """The headers of every answer, the date among them."""
        return self.server_state.default_headers

    def data_received(self, data: bytes) -> None:
        """As above; a request whose head has come before needs no parser."""
        if self._known is not None and not self.deaf and not self.transport.is_closing():
            if self._owed_bytes:
                self._take_owed(data)
                return
            if self.stage is _BETWEEN and self.active is None and self._take_known(self._known, data):
                return
        begins, before = self.stage is _BETWEEN and self._heads_seen < _MOST_HEADS, self.cycle
        super().data_received(data)
        if begins and self.cycle is not before and isinstance(self.cycle, ServerExchange):
            self._learn(data, self.cycle)

    def dispatch(self, version: str, fault: HeadraceError | None) -> None:
        """Takes a request on an inference route, a faulty one too, so that it is on the ledger; else as above."""
        operation = self._operation() if self.parser.get_method() == b"POST" else None
        if operation is None or self._is_crowded():
            super().dispatch(version, fault)
            return
        exchange = ServerExchange(
            self,
            operation,
            self.headers,
            expects=self.expect_100_continue,
            chunks=version != "1.0",
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
        )
        self.cycle = exchange
        if self.active is None:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))
        if fault is not None:
            exchange.fail(fault)
            self.deaf = True
            raise fault

    def take_body(self, body: bytes) -> None:
        """See ``RequestReader.take_body``."""
        if isinstance(self.cycle, ServerExchange):
            self.cycle.feed(body)
        else:
            super().take_body(body)

    def end_request(self) -> None:
        """See ``RequestReader.end_request``."""
        if not isinstance(self.cycle, ServerExchange):
            super().end_request()
            return
        if self.active is None:  # answered before its end
            self.deadline.set(self.timeout_keep_alive)
        self.cycle.close_body()

    def break_body(self, error: HeadraceError) -> None:
        """The body's fault is told by the pipeline, so that it is on the ledger."""
        if not isinstance(self.cycle, ServerExchange):
            super().break_body(error)
        elif self.cycle.response_complete:
            self.part()
        else:
            self.cycle.fail(error)

    def client_left(self) -> None:
        """Ends the request under way; those that wait behind it are recorded as what they are, requests of nobody."""
        waiting, active = list(reversed(self.pipeline)), self.active
        self.pipeline.clear()
        if isinstance(active, ServerExchange):
            active.hang_up()
        for cycle, app in waiting:
            if isinstance(cycle, ServerExchange):
                cycle.hang_up()
                self._start_asgi_task(cycle, app)
        self.active = active

    def connection_lost(self, exc: Exception | None) -> None:
        """As above; and uvicorn has nothing to tell an exchange."""
        self.client_left()
        if isinstance(self.cycle, ServerExchange):
            self.cycle = None
        super().connection_lost(exc)

    def overdue(self) -> None:
        """See ``RequestReader.overdue``."""
        if not (isinstance(self.active, ServerExchange) and self.active.expire()):
            super().overdue()

    def _take_known(self, known: KnownHead, data: bytes) -> bool:
        """Takes a request whose head is the known one; whether it is."""
        frame = known.frame(data)
        if frame is None:
            return False
        body_at, digits = frame
        owed_bytes = int(digits)
        if owed_bytes > self.limits.max_body_bytes:
            return False
        whole = len(data) - body_at == owed_bytes
        self.deadline.clear()
        self.cycle = ServerExchange(
            self,
            known.operation,
            known.headers(digits),
            expects=False,
            chunks=True,
            keep_alive=True,
            plain=True,
            pieces=[data[body_at:]] if whole else [],
            complete=whole,
        )
        self._start_asgi_task(self.cycle, self.app)
        if not whole:
            self.stage = _BODY
            self._owed_bytes = owed_bytes
            self._take_owed(data[body_at:])
        return True

    def _take_owed(self, data: bytes) -> None:
        """Takes more of a body whose length is known; what comes behind it is another request."""
        owed_bytes = self._owed_bytes
        surplus = data[owed_bytes:]
        if surplus:
            data = data[:owed_bytes]
        if data:
            self._owed_bytes = owed_bytes - len(data)
            self.cycle.feed(data)
        if not self._owed_bytes:
            self.stage = _BETWEEN
            self.end_request()
        if surplus:
            self.data_received(surplus)

    def _learn(self, data: bytes, exchange: ServerExchange) -> None:
        """Keeps the head that was just read in one piece, if the next one may be the same."""
        self._heads_seen += 1
        if exchange.plainly_kept and exchange.operation not in UPLOADS and self.limit_concurrency is None:
            self._known = KnownHead.of(data, exchange.headers, exchange.operation)

    def _operation(self) -> Operation | None:
        """The operation of the request's target, found as uvicorn and the ASGI application would."""
        if not self.root_path:
            found = _BY_TARGET.get(self.url)
            if found is not None:
                return found
        path: bytes | None = httptools.parse_url(self.url).path
        if path is None:
            return None
        return OPERATIONS.get(self.root_path + urllib.parse.unquote(path.decode("ascii")))

    def _is_crowded(self) -> bool:
        limit = self.limit_concurrency
        return limit is not None and (len(self.connections) >= limit or len(self.tasks) >= limit)

    def _start_asgi_task(self, cycle: Any, app: ASGI3Application) -> None:
        if not isinstance(cycle, ServerExchange):
            super()._start_asgi_task(cycle, app)
            return
        self.active = cycle
        cycle.task = task = self.loop.create_task(self._serve(cycle))
        self.tasks.add(task)

    async def _serve(self, exchange: ServerExchange) -> None:
        task = exchange.task
        try:
            await self.inference.handle(exchange)
        except Exception as error:  # noqa: BLE001  # whatever it is, the next request of this connection must not wait
            _log.error("%s left an exchange to itself", type(error).__name__)
        finally:
            self.tasks.discard(task)  # by itself: to be told when a task is over takes a turn of the loop
            if exchange.abandon():
                self._end_unfinished(exchange)
            if exchange.gone and self.active is exchange:
                self.active = None  # the two would hold each other

    def _end_unfinished(self, exchange: ServerExchange) -> None:
        """An answer that nobody will finish must not look finished."""
        if exchange.started:
            self.transport.abort()
            return
        body = FORMATS[exchange.operation].error_body(HeadraceError("something broke on our side"))
        framing = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n" % len(body)
        self.transport.write(self.heads.head(500, (), framing, self.default_headers) + body)
        self.part()
