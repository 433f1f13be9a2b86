"""An OpenTelemetry collector on a loopback port that keeps what it is sent."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from zlib import decompress

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Span:
    """One span as it was exported. Ids are hex; ``error`` tells whether its status is one."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    error: bool
    attributes: dict[str, Any]
    events: int


@dataclass
class Collector:
    """``spans`` in the order in which they came."""

    endpoint: str
    spans: list[Span] = field(default_factory=list)
    _eventually: Callable[..., Any] = field(repr=False, default=None)  # type: ignore[assignment]  # set where it is made

    async def until(self, condition: Callable[[], object]) -> None:
        """Returns as soon as ``condition`` holds; exporting is another thread's work."""
        await self._eventually(condition)


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None


def _spans(request: ExportTraceServiceRequest) -> list[Span]:
    return [
        Span(
            name=span.name,
            kind=span.kind,
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            error=span.status.code == span.status.STATUS_CODE_ERROR,
            attributes={attribute.key: _value(attribute.value) for attribute in span.attributes},
            events=len(span.events),
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


@asynccontextmanager
async def collect(eventually: Callable[..., Any]) -> AsyncIterator[Collector]:
    """Serves a collector on a thread: the exporter's client is a blocking one."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = decompress(body, 31)
            collector.spans += _spans(ExportTraceServiceRequest.FromString(body))
            self.send_response(HTTPStatus.OK)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}/v1/traces", _eventually=eventually)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
