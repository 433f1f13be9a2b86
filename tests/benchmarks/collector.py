"""An OTLP collector on loopback that keeps nothing of a span but its kind and its id."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from programs import HOST


class Collected:
    """The spans that have come, by kind; an exporter that sends a batch again does not count twice."""

    def __init__(self) -> None:
        self._ids: set[bytes] = set()
        self._kinds: Counter[int] = Counter()
        self._lock = threading.Lock()

    @property
    def server(self) -> int:
        """How many SERVER spans: one a request."""
        return self._kinds[Span.SPAN_KIND_SERVER]

    @property
    def client(self) -> int:
        """How many CLIENT spans: one an attempt."""
        return self._kinds[Span.SPAN_KIND_CLIENT]

    def take(self, body: bytes) -> None:
        """Counts the spans of one export request."""
        request = ExportTraceServiceRequest.FromString(body)
        with self._lock:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        if span.span_id not in self._ids:
                            self._ids.add(span.span_id)
                            self._kinds[span.kind] += 1


@contextmanager
def collect_spans() -> Iterator[tuple[str, Collected]]:
    """Gives the endpoint for ``OTEL_EXPORTER_OTLP_ENDPOINT``, and what has come there."""
    collected = Collected()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            collected.take(self.rfile.read(int(self.headers["content-length"])))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}", collected
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
