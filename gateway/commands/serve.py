"""``headrace serve``: runs the gateway until it is told to stop.

SIGTERM or SIGINT: not ready at once, nothing new, running answers finish or are ended with an error event when
``HEADRACE_DRAIN_S`` is over, then exit 0. A second one ends it now. SIGHUP reloads the policy file.
"""

import argparse
import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from gateway import logs
from gateway.app import Gateway
from gateway.ownership import check_ownership
from gateway.settings import Settings, event_loop, read_settings
from gateway.transport.server import protocol_class
from gateway.transport.server_limits import ServerLimits

_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options; each goes before its environment variable."""
    parser.add_argument("policy", nargs="?", type=Path, help="policy file (default: the embedded model alone)")
    parser.add_argument("--host", help="address to bind (HEADRACE_HOST)")
    parser.add_argument("--port", type=int, help="port to bind (HEADRACE_PORT)")


def run(arguments: argparse.Namespace) -> int:
    """Serves, and returns the exit code."""
    check_ownership()
    settings = read_settings(policy=arguments.policy, host=arguments.host, port=arguments.port)
    gateway = Gateway(settings)
    _configure_logs(settings, gateway)
    gateway.check_bind()
    server = _Server(gateway, settings)
    with contextlib.suppress(KeyboardInterrupt):
        server.run()
    return 0 if server.started else 3


def _limits(settings: Settings) -> ServerLimits:
    return ServerLimits(
        max_header_bytes=settings.max_header_bytes,
        max_headers=settings.max_headers,
        max_body_bytes=settings.max_body_bytes,
        head_timeout_s=settings.head_timeout_s,
        body_timeout_s=settings.body_timeout_s,
    )


def _configure_logs(settings: Settings, gateway: Gateway) -> None:
    logs.configure(
        sys.stderr, level=settings.log_level, json_lines=settings.log_format == "json", secrets=gateway.secrets()
    )


class _Server(uvicorn.Server):
    """Uvicorn that drains before it stops listening, so that probes and late clients get an answer meanwhile.

    It starts and closes the gateway itself. As a lifespan, a wrong configuration would come out as a traceback, and a
    second signal would leave the ledger unwritten and the engine running.
    """

    def __init__(self, gateway: Gateway, settings: Settings) -> None:
        super().__init__(
            uvicorn.Config(
                gateway.asgi,
                host=settings.host,
                port=settings.port,
                loop=event_loop(),
                http=protocol_class(gateway.pipeline, _limits(settings)),
                ws="none",
                lifespan="off",
                proxy_headers=False,
                server_header=False,
                access_log=False,
                log_config=None,
                timeout_keep_alive=settings.keep_alive_s,
                timeout_graceful_shutdown=5,
            )
        )
        self._gateway = gateway
        self._settings = settings
        self._draining: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Takes the signals on the loop; uvicorn's own way stops listening at once and exits with the signal."""
        loop = asyncio.get_running_loop()
        handlers = {signal.SIGTERM: self._stop, signal.SIGINT: self._stop}
        if sys.platform != "win32":
            handlers[signal.SIGHUP] = self._reload
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Says where it listens, once it does; uvicorn's own words are left out of the log.

        Raises:
            ConfigurationError: a backend or the ledger cannot be started.
        """
        try:
            await self._gateway.start()
            await super().startup(sockets)
        except BaseException:  # uvicorn leaves by SystemExit where the port is taken
            await self._gateway.close()
            raise
        for server in self.servers:
            for listening in server.sockets:
                host, port = listening.getsockname()[:2]
                _log.info("running on http://%s:%d/v1", f"[{host}]" if ":" in host else host, port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops listening, then ends what is left: clients that do not read the last of their answer, too."""
        await super().shutdown(sockets)
        await self._gateway.close()
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # the loop's turn, in which they close

    def _stop(self) -> None:
        if self._draining is None:
            _log.info("draining for up to %g s", self._settings.drain_s)
            self._draining = asyncio.create_task(self._drain(), name="headrace-drain")
        else:
            self.should_exit = self.force_exit = True

    async def _drain(self) -> None:
        await self._gateway.pipeline.drain(self._settings.drain_s)
        self.should_exit = True

    def _reload(self) -> None:
        self._reloading = asyncio.create_task(self._reload_policy(), name="headrace-reload")

    async def _reload_policy(self) -> None:
        await self._gateway.reload()
        _configure_logs(self._settings, self._gateway)  # the file may name secrets that were not hidden before
