"""HTTP in and out for the inference routes, in raw ASGI: the portable implementation of the ``Exchange`` seam."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from gateway.content_coding import decoder
from gateway.errors import BodyTooLarge, ClientGone, RequestTimeout
from gateway.exchange import RawHeaders
from gateway.pipeline import Pipeline
from gateway.types import Operation
from gateway.wire.passages import PASSAGES, UPLOADS

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

OPERATIONS: Mapping[str, Operation] = {
    "/v1/chat/completions": Operation.CHAT,
    "/v1/completions": Operation.COMPLETION,
    "/v1/embeddings": Operation.EMBEDDING,
    "/v1/messages": Operation.MESSAGES,
    "/v1/messages/count_tokens": Operation.COUNT_TOKENS,
    "/v1/responses": Operation.RESPONSE,
    **{path: passage.operation for passage in PASSAGES.values() for path in passage.paths},
    "/api/chat": Operation.OLLAMA_CHAT,
    "/api/generate": Operation.OLLAMA_GENERATE,
    "/api/embed": Operation.OLLAMA_EMBED,
    "/api/embeddings": Operation.OLLAMA_EMBEDDINGS,
}
"""The inference routes; each takes POST alone."""


class Endpoints:
    """The ASGI application of the inference routes."""

    def __init__(
        self, pipeline: Pipeline, *, max_body_bytes: int, body_timeout_s: float, max_upload_bytes: int = 0
    ) -> None:
        self._pipeline = pipeline
        self._max_body_bytes = max_body_bytes
        self._max_upload_bytes = max(max_upload_bytes, max_body_bytes)
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request; the path must be one of ``OPERATIONS``."""
        operation = OPERATIONS[scope["path"]]
        exchange = AsgiExchange(
            operation,
            scope["headers"],
            receive,
            send,
            max_body_bytes=self._max_upload_bytes if operation in UPLOADS else self._max_body_bytes,
            body_timeout_s=self._body_timeout_s,
        )
        try:
            await self._pipeline.handle(exchange)
        finally:
            exchange.stop_watching()


class AsgiExchange:
    """An ``Exchange`` over one ASGI request."""

    def __init__(
        self,
        operation: Operation,
        headers: RawHeaders,
        receive: Receive,
        send: Send,
        *,
        max_body_bytes: int,
        body_timeout_s: float,
    ) -> None:
        self.operation = operation
        self.headers = headers
        self.gone = False
        self.started = False
        self.streaming = False
        self._finished = False
        self._receive = receive
        self._send = send
        self._max_body_bytes = max_body_bytes
        self._body_timeout_s = body_timeout_s
        self._watch: asyncio.Task[None] | None = None

    async def body(self) -> bytes:
        """See ``Exchange.body``. From its end on, a hang-up cancels the task that called."""
        codings = [value for name, value in self.headers if name == b"content-encoding"]
        inflater = decoder(b",".join(codings).decode("latin-1"), self._max_body_bytes)
        self._check_declared_length()
        try:
            async with asyncio.timeout(self._body_timeout_s):
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        self.gone = True
                        raise ClientGone("the client hung up while sending its body")
                    inflater.feed(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise RequestTimeout(f"the body did not arrive within {self._body_timeout_s:g} s") from None
        body = inflater.finish()
        self._watch = asyncio.create_task(self._notice_hang_up(asyncio.current_task()))
        return body

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """See ``Exchange.answer``."""
        self.started = self._finished = True
        complete = [*headers, (b"content-length", b"%d" % len(body))]
        if status == RequestTimeout.http_status:  # whatever else comes of that body, nobody waits for it
            complete.append((b"connection", b"close"))
        await self._send({"type": "http.response.start", "status": status, "headers": complete})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def open(self, status: int, headers: RawHeaders) -> None:
        """See ``Exchange.open``."""
        self.started = self.streaming = True
        await self._send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def write(self, data: bytes) -> None:
        """See ``Exchange.write``: the server below waits while its buffer is full."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def close(self) -> None:
        """See ``Exchange.close``."""
        self.streaming = False
        self._finished = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def stop_watching(self) -> None:
        """The exchange is over: a client may leave now."""
        if self._watch is not None:
            self._watch.cancel()

    def _check_declared_length(self) -> None:
        """Refuses a body that says it is too long before any of it is read."""
        for name, value in self.headers:
            if name == b"content-length" and value.isdigit() and int(value) > self._max_body_bytes:
                raise BodyTooLarge(f"the body is longer than {self._max_body_bytes} bytes")

    async def _notice_hang_up(self, serving: asyncio.Task[Any] | None) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        # The server says the same when the answer is out; whoever leaves then has missed nothing.
        if serving is not None and not self._finished:
            self.gone = True
            serving.cancel()
