"""Sends spans that are encoded already to a collector, with the retries and compression of OpenTelemetry's exporters.

Their client and transport are taken without the exporter around them: that one encodes spans with protobuf's library
and loads `requests`, which is 7 MiB for what is not used. None of these names is public, nor is that of the batch
processor in ``gateway.telemetry.spans``: pyproject.toml admits one minor release of their packages, and the tests send
to a collector through all of it.
"""

import logging
from importlib.metadata import version

import certifi
from opentelemetry.exporter.http.transport._base import BaseHTTPTransport
from opentelemetry.exporter.http.transport._requests import RequestsHTTPTransport
from opentelemetry.exporter.http.transport._urllib3 import Urllib3HTTPTransport
from opentelemetry.exporter.otlp.common.http import Compression, _OTLPHTTPClient

from gateway.seldom import Seldom, SeldomFilter
from gateway.telemetry.otlp import Destination
from gateway.telemetry.span_records import export_request

_SCOPE = "headrace"

_log = logging.getLogger(__name__)
_tries = logging.getLogger(f"{__name__}.tries")


class RecordExporter:
    """Sends the spans of ``resource``, which is an OTLP record too, to ``destination``."""

    def __init__(self, resource: bytes, destination: Destination) -> None:
        if not any(isinstance(known, SeldomFilter) for known in _tries.filters):
            _tries.addFilter(SeldomFilter())  # a collector that is away is worth one line, not one a batch
        self._resource = resource
        self._client = _OTLPHTTPClient(
            _transport(destination),
            destination.url,
            "spans",
            timeout=destination.timeout_s,
            compression=Compression.from_str(destination.compression),
            headers={
                "content-type": "application/x-protobuf",
                "user-agent": f"headrace/{version('headrace')}",
                **destination.headers,
            },
            logger=_tries,
        )
        self._complain = Seldom(_log)

    def export(self, batch: list[bytes], /) -> None:
        """Sends these spans; where that cannot be, they are lost, and the log says why."""
        result = self._client.export(export_request(self._resource, _SCOPE, batch))
        if not result.success:
            why = result.reason or result.error or "this gateway ends"
            self._complain("%d spans are lost, since the collector did not take them: %s", len(batch), why)

    def shutdown(self) -> None:
        """Gives up what is tried again just now, and closes the connections."""
        self._client.shutdown()


def _transport(destination: Destination) -> BaseHTTPTransport:
    """The light one, except where there is a proxy, which only the other looks for."""
    transport = RequestsHTTPTransport if destination.behind_proxy else Urllib3HTTPTransport
    certificate, key = destination.client_certificate, destination.client_key
    return transport(
        verify=destination.certificate or certifi.where(),
        cert=(certificate, key) if certificate and key else certificate or None,
    )
