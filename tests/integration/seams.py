"""The gateway over our own protocol instead of over ASGI, until ``headrace serve`` can be asked for one of them."""

from typing import Any

import pytest

from gateway.app import Gateway
from gateway.commands.serve import _Server
from gateway.settings import Settings
from gateway.transport.server import protocol_class
from gateway.transport.server_limits import ServerLimits

SEAMS = ("asgi", "protocol")


def choose_seam(seam: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has every gateway of a test speak through one of ``SEAMS``."""
    begin = _Server.__init__

    def begin_with_protocol(self: Any, gateway: Gateway, settings: Settings) -> None:
        begin(self, gateway, settings)
        limits = ServerLimits(
            max_header_bytes=settings.max_header_bytes,
            max_body_bytes=settings.max_body_bytes,
            body_timeout_s=settings.body_timeout_s,
        )
        self.config.http = protocol_class(gateway.pipeline, limits)

    if seam == "protocol":
        monkeypatch.setattr(_Server, "__init__", begin_with_protocol)
