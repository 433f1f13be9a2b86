from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from gateway.telemetry.otlp import read_destination
from gateway.telemetry.record_exporter import RecordExporter


@pytest.fixture
def refusing() -> Iterator[str]:
    """The address of a collector that does not know whoever asks."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(HTTPStatus.UNAUTHORIZED)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_log_says_that_spans_are_lost_and_why(refusing: str, caplog: pytest.LogCaptureFixture) -> None:
    """Once for a collector that takes none, however many batches it refuses."""
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": refusing}
    exporter = RecordExporter(b"", read_destination(environment, behind_proxy=lambda _: False))
    for _ in range(3):
        exporter.export([b"", b""])
    exporter.shutdown()
    told = [record.message for record in caplog.records if record.name == "gateway.telemetry.record_exporter"]
    assert ["2 spans are lost, since the collector did not take them: Unauthorized"] == told
