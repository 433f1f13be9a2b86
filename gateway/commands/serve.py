"""``headrace serve``: runs the gateway until it is told to stop.

SIGTERM or SIGINT: not ready at once, nothing new, running answers finish or are ended with an error event when
``HEADRACE_DRAIN_S`` is over, then exit 0. A second one ends it now. SIGHUP reloads the policy file.

With ``--workers`` this process serves nobody: it runs so many of itself, passes the signals on, and replaces who dies.
"""

import argparse
import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import uvicorn

from gateway.app import Gateway
from gateway.errors import ConfigurationError
from gateway.process.garbage import collect_less
from gateway.process.listening import Listening, base_url
from gateway.process.one_heap import give_back, share_one_heap
from gateway.process.ownership import check_ownership
from gateway.process.run_directory import leave_run_directory, open_run_directory
from gateway.process.worker_line import DRAIN, END_NOW, NOT_STARTED, RELOAD, Assignment, ParentLine
from gateway.settings import Settings, event_loop, read_settings
from gateway.telemetry import logs
from gateway.transport.server import protocol_class
from gateway.transport.server_limits import ServerLimits

_log = logging.getLogger(__name__)

_TICKS_A_LOOK = 10
"""Of uvicorn's, ten of which are a second: how often we look whether nobody is being served."""

_ANOTHER_PORT = "nothing is served: --port or HEADRACE_PORT takes another port, --host or HEADRACE_HOST another address"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options; each goes before its environment variable."""
    parser.add_argument("policy", nargs="?", type=Path, help="policy file (default: the embedded model alone)")
    parser.add_argument("--host", help="address to bind (HEADRACE_HOST)")
    parser.add_argument("--port", type=int, help="port to bind (HEADRACE_PORT)")
    parser.add_argument("--workers", type=int, help="processes that serve (HEADRACE_WORKERS)")
    parser.add_argument("--worker", type=_assignment, help=argparse.SUPPRESS)  # how a parent starts a worker


def run(arguments: argparse.Namespace) -> int:
    """Serves, and returns the exit code."""
    check_ownership()
    share_one_heap()
    settings = read_settings(
        policy=arguments.policy, host=arguments.host, port=arguments.port, workers=arguments.workers
    )
    assignment: Assignment | None = arguments.worker
    if assignment is not None:
        return _run_worker(settings, assignment)
    if settings.workers > 1:
        return _run_workers(settings)
    return _serve(settings)


def _serve(settings: Settings, assignment: Assignment | None = None, sockets: list[socket.socket] | None = None) -> int:
    gateway = Gateway(settings, assignment=assignment)
    _configure_logs(settings, gateway.secrets())
    gateway.check_bind()
    server = _Server(gateway, settings, line=assignment.line if assignment is not None else None)
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets)
    return 0 if server.started else NOT_STARTED


def _run_worker(settings: Settings, assignment: Assignment) -> int:
    with contextlib.ExitStack() as inherited:
        inherited.callback(leave_run_directory, Path(assignment.run_dir), assignment.lock)
        sockets = [inherited.enter_context(listening) for listening in assignment.sockets()]
        return _serve(settings, assignment, sockets)


def _assignment(text: str) -> Assignment:
    return msgspec.json.decode(text, type=Assignment)


def _run_workers(settings: Settings) -> int:
    if sys.platform == "win32":
        raise ConfigurationError("there can be but one worker on this platform", where="HEADRACE_WORKERS")
    from gateway.process.workers import Workers  # noqa: PLC0415  # who serves has no use for it, nor for what it imports

    _configure_logs(settings, ())  # this process knows none
    try:
        listening = Listening(settings.host, settings.port)
    except OSError as error:
        _log.error("%s", error)  # the words are the whole story
        _log.error(_ANOTHER_PORT)
        return NOT_STARTED
    with contextlib.closing(listening), contextlib.closing(open_run_directory(settings.state_dir)) as run_dir:
        workers = Workers(
            settings.workers,
            command=_worker_command(settings),
            listening=listening,
            run_dir=run_dir,
            drain_s=settings.drain_s,
        )
        return asyncio.run(workers.run())


def _worker_command(settings: Settings) -> Sequence[str]:
    """This command with what the options have decided; the environment is inherited.

    ``-P`` keeps the working directory off the child's path, so that a folder there cannot stand in for our packages.
    """
    policy = (str(settings.policy.absolute()),) if settings.policy is not None else ()
    warnings = (f"-W{option}" for option in sys.warnoptions)
    options = ("--host", settings.host, "--port", str(settings.port))
    return (sys.executable, "-P", *warnings, "-m", "gateway", "serve", *policy, *options)


def _limits(settings: Settings) -> ServerLimits:
    return ServerLimits(
        max_header_bytes=settings.max_header_bytes,
        max_headers=settings.max_headers,
        max_body_bytes=settings.max_body_bytes,
        max_upload_bytes=settings.longest_upload_bytes,
        head_timeout_s=settings.head_timeout_s,
        body_timeout_s=settings.body_timeout_s,
    )


def _configure_logs(settings: Settings, secrets: Sequence[str]) -> None:
    logs.configure(sys.stderr, level=settings.log_level, json_lines=settings.log_format == "json", secrets=secrets)


def _load(config: uvicorn.Config) -> None:
    """Reads the certificate, while it can still be said in a sentence what is wrong with it.

    Raises:
        ConfigurationError: a file is not there, or is none with a certificate and its key.
    """
    where = "HEADRACE_TLS_CERTIFICATE"
    if config.ssl_keyfile and not config.ssl_certfile:
        raise ConfigurationError("there is a key, and no certificate", where=where)
    try:
        config.load()
    except (OSError, ValueError) as error:  # an `SSLError` is the first, and sometimes the second
        reason = error.strerror if isinstance(error, (FileNotFoundError, PermissionError)) else "they do not fit"
        raise ConfigurationError(f"certificate and key cannot be used: {reason}", where=where) from error


class _Server(uvicorn.Server):
    """Uvicorn that drains before it stops listening, so that probes and late clients get an answer meanwhile.

    It starts and closes the gateway itself. As a lifespan, a wrong configuration would come out as a traceback, and a
    second signal would leave the ledger unwritten and the engine running.

    ``line`` is a worker's to its parent: the parent says where it listens, and when to end now.
    """

    def __init__(self, gateway: Gateway, settings: Settings, *, line: int | None = None) -> None:
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
                ssl_certfile=settings.tls_certificate,
                ssl_keyfile=settings.tls_key,
            )
        )
        _load(self.config)
        self._gateway = gateway
        self._settings = settings
        self._draining: asyncio.Task[None] | None = None
        self._line_to_parent = line
        self._parent = ParentLine(
            {DRAIN: self._start_draining, END_NOW: self._end_now, RELOAD: self._reload}, self._orphaned
        )

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
            await self._gateway.settle(self._settings.start_wait_s)
            await super().startup(sockets)
        except BaseException as error:
            await self._gateway.close()
            if isinstance(error, SystemExit):  # uvicorn's way out where it cannot listen; why is in the log
                _log.error(_ANOTHER_PORT)
            raise
        collect_less()
        if self._line_to_parent is not None:
            if self._draining is None:  # else the parent has no use for it any more
                await self._parent.open(self._line_to_parent)
            return
        for server in self.servers:
            for listening in server.sockets:
                _log.info("running on %s", base_url(listening, tls=self.config.is_ssl))

    async def on_tick(self, counter: int) -> bool:
        """Every tenth of a second. While nobody is being served, memory that is free goes back to the system."""
        if counter % _TICKS_A_LOOK == 0 and not self._gateway.pipeline.running:
            give_back()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops listening, then ends what is left: clients that do not read the last of their answer, too."""
        self._parent.close()
        await super().shutdown(sockets)
        await self._gateway.close()
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # the loop's turn, in which they close

    def _stop(self) -> None:
        if self._draining is None:
            self._start_draining()
        elif self._line_to_parent is None:
            self._end_now()

    def _start_draining(self) -> None:
        if self._draining is None:
            _log.info("draining for up to %g s", self._settings.drain_s)
            self._draining = asyncio.create_task(self._drain(), name="headrace-drain")

    def _end_now(self) -> None:
        self.should_exit = self.force_exit = True

    def _orphaned(self) -> None:
        """The address is free at once for whoever takes the parent's place; running answers go on for their time."""
        _log.error("the parent process is gone")
        for server in self.servers:
            server.close()
        self._start_draining()

    async def _drain(self) -> None:
        await self._gateway.pipeline.drain(self._settings.drain_s)
        self.should_exit = True

    def _reload(self) -> None:
        self._reloading = asyncio.create_task(self._reload_policy(), name="headrace-reload")

    async def _reload_policy(self) -> None:
        await self._gateway.reload()
        _configure_logs(
            self._settings, self._gateway.secrets()
        )  # the file may name secrets that were not hidden before
