"""The gateway over its own protocol, as it is served, and over ASGI, as any other server would run it."""

from typing import Any

import pytest

from gateway.app import Gateway
from gateway.commands.serve import _Server
from gateway.settings import Settings
from gateway.transport.http_protocol import HttpProtocol

SEAMS = ("asgi", "protocol")


def choose_seam(seam: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has every gateway of a test speak through one of ``SEAMS``."""
    begin = _Server.__init__

    def begin_over_asgi(self: Any, gateway: Gateway, settings: Settings) -> None:
        begin(self, gateway, settings)
        self.config.http = HttpProtocol

    if seam == "asgi":
        monkeypatch.setattr(_Server, "__init__", begin_over_asgi)
