"""HTTP/1.1 as uvicorn speaks it, and what it leaves open: errors in our envelope, HTTP/1.0, hang-ups of pipeliners."""

from typing import Any

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gateway.attempt.answer_headers import error_headers
from gateway.door import new_request_id
from gateway.errors import InvalidRequest
from gateway.wire.openai_errors import error_body

_NO_LENGTH = 2**63


class HttpProtocol(HttpToolsProtocol):
    """Uvicorn's protocol class: give it to its ``http`` setting."""

    _served: RequestResponseCycle | None = None

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP, and ends the connection: where the next request begins cannot be known."""
        del msg
        error = InvalidRequest("this is not a valid HTTP request")
        body = error_body(error)
        headers = [
            *error_headers(new_request_id(), error),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n%b\r\n%b" % (lines, body))
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the request that is served, too: uvicorn tells the last one that came, which may wait behind it."""
        super().connection_lost(exc)
        if self._served is not None and not self._served.response_complete:
            self._served.disconnected = True
            self._served.message_event.set()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._served = cycle
        if cycle.scope["http_version"] == "1.0":
            app = _until_close(cycle, app)
        super()._start_asgi_task(cycle, app)


def _until_close(cycle: RequestResponseCycle, app: ASGI3Application) -> ASGI3Application:
    """``app`` for a client of HTTP/1.0, which knows no chunks: a body without a length ends with the connection."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        unbounded = False

        async def framed(message: Any) -> None:
            nonlocal unbounded
            if message["type"] == "http.response.start":
                unbounded = not any(name == b"content-length" for name, _ in message["headers"])
                if unbounded:
                    cycle.chunked_encoding, cycle.expected_content_length = False, _NO_LENGTH
            elif unbounded and not message.get("more_body", False):
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await app(scope, receive, framed)

    return serve
