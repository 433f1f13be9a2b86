"""A real gateway on a loopback port, in the test's own event loop, and clients that talk to it over real sockets."""

import asyncio
import hashlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anthropic
import httpx
import msgspec
import ollama
import openai
import pytest
import pytest_asyncio
import yaml

from gateway.app import Gateway
from gateway.commands.serve import _Server
from gateway.settings import Settings
from tests.integration.raw_client import PATIENCE_S, RawClient
from tests.integration.served_process import ServedProcess, serve_process
from tests.integration.span_collector import Collector, collect

KEY = "sk-acme-0123456789"
METRICS_KEY = "sk-operator-0123456789"

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Empty: loading the usual certificates costs each client 40 ms, and nothing here speaks TLS."""

_START_PATIENCE_S = 60.0
"""A gateway opens its port when its engine is ready, which loads, tests and measures a model first."""


async def _eventually(condition: Callable[[], object], *, within_s: float = PATIENCE_S) -> None:
    """Returns as soon as ``condition`` holds; for states that nobody announces with an event."""
    turn = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(within_s):
        while not condition():
            loop.call_later(0.002, turn.set)
            await turn.wait()
            turn.clear()


class _InProcessServer(_Server):
    """The server of ``headrace serve``, its signals left to pytest, and quicker to stop."""

    def __init__(self, gateway: Gateway, settings: Settings) -> None:
        super().__init__(gateway, settings)
        self.told_to_stop = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Any:
        """Takes none."""
        yield

    async def main_loop(self) -> None:
        """Ticks once, where uvicorn asks ten times a second whether it should stop."""
        await self.on_tick(0)
        await self.told_to_stop.wait()

    async def shutdown(self, sockets: Any = None) -> None:
        """Closes in uvicorn's order and without its pauses; a connection that does not end fails the test."""
        del sockets
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await _eventually(lambda: not self.server_state.connections)
        await self._gateway.close()


@dataclass
class Running:
    """A gateway that serves. ``http`` and ``raw`` speak to it; its inside is there to be looked at."""

    gateway: Gateway
    port: int
    server: _InProcessServer
    policy_file: Path
    http: httpx.AsyncClient
    _stack: AsyncExitStack
    _serving: asyncio.Task[None] = field(repr=False, default=None)  # type: ignore[assignment]  # set by _start

    @property
    def url(self) -> str:
        """The base URL of the API."""
        return f"http://127.0.0.1:{self.port}/v1"

    def backend(self, name: str) -> Any:
        """A backend by its name in the policy file."""
        return self.gateway.world.backends[name]

    async def raw(self, *, receive_buffer_bytes: int | None = None, read_limit: int = 2**16) -> RawClient:
        """A connection of its own."""
        sock = socket.socket()
        if receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.setblocking(False)  # noqa: FBT003  # the socket module's signature
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=read_limit)
        client = RawClient(reader, writer)
        self._stack.push_async_callback(client.close)
        return client

    def openai(self, **options: Any) -> openai.AsyncOpenAI:
        """The official client, without retries of its own unless asked for."""
        transport = openai.DefaultAsyncHttpxClient(verify=_NO_TLS)
        given = {"base_url": self.url, "api_key": KEY, "max_retries": 0, "http_client": transport, **options}
        client = openai.AsyncOpenAI(**given)
        self._stack.push_async_callback(client.close)
        return client

    def anthropic(self, **options: Any) -> anthropic.AsyncAnthropic:
        """Anthropic's official client, likewise."""
        transport = anthropic.DefaultAsyncHttpxClient(verify=_NO_TLS)
        given = {"base_url": self.url.removesuffix("/v1"), "api_key": KEY, "max_retries": 0, "http_client": transport}
        client = anthropic.AsyncAnthropic(**{**given, **options})
        self._stack.push_async_callback(client.close)
        return client

    def ollama(self, **options: Any) -> ollama.AsyncClient:
        """Ollama's official client, with the key as ``OLLAMA_API_KEY`` has it."""
        headers = {"authorization": f"Bearer {KEY}"}
        client = ollama.AsyncClient(**{"host": self.url.removesuffix("/v1"), "headers": headers, **options})
        self._stack.push_async_callback(client.close)
        return client

    async def post(self, body: Any = None, *, path: str = "/v1/chat/completions", **options: Any) -> httpx.Response:
        """Posts a chat, completed by what it needs at the least; a ``bytes`` body goes out as it is."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(_chat(body, path))
        return await self.http.post(path, content=content, **options)

    @asynccontextmanager
    async def stream(self, body: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[httpx.Response]:
        """Posts a streamed chat."""
        path = options.pop("path", "/v1/chat/completions")
        content = msgspec.json.encode(_chat({"stream": True, **(body or {})}, path))
        async with self.http.stream("POST", path, content=content, **options) as response:
            yield response

    async def rows(self) -> list[dict[str, Any]]:
        """All requests on the ledger's disk, oldest first, each with its ``attempts_made``."""
        self.gateway._ledger.flush()
        rows = self.gateway._rows
        assert rows is not None
        assert await rows.flush(), "the ledger was not written in time"
        ids = await rows.tables.rows("SELECT DISTINCT id FROM requests ORDER BY seq")
        return [row for (request_id,) in ids for row in await rows.find(request_id)]

    async def row(self) -> dict[str, Any]:
        """The only request on the ledger, as soon as it has ended."""
        await _eventually(lambda: self.gateway._ledger.recorded == 1)
        (row,) = await self.rows()
        return row

    async def series(self) -> dict[str, float]:
        """The samples of ``/metrics`` by name and labels."""
        response = await self.http.get("/metrics", headers={"authorization": f"Bearer {METRICS_KEY}"})
        assert response.status_code == 200
        lines = [line for line in response.text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    async def stop(self) -> None:
        """Stops the server as the end of a drain does; idempotent."""
        self.server.told_to_stop.set()
        await self._serving


def _chat(body: Mapping[str, Any] | None, path: str) -> dict[str, Any]:
    prompt: dict[str, Any] = {"messages": [{"role": "user", "content": "Say a few words."}]}
    if path.partition("?")[0] == "/v1/completions":
        prompt = {"prompt": "Once upon a time"}
    return {"model": "fake", **prompt, **(body or {})}


def _policy(given: Mapping[str, Any]) -> dict[str, Any]:
    """A whole policy file: one route over all backends unless routes are given, no keys unless ``locked``."""
    policy = dict(given)
    if policy.pop("locked", False):
        policy["tenants"] = {"acme": {"keys_sha256": [hashlib.sha256(KEY.encode()).hexdigest()]}}
    policy.setdefault("backends", {"made-up": {"use": "fake"}})
    policy.setdefault("routes", {"all": {"models": ["*"], "targets": list(policy["backends"])}})
    return policy


def _written(folder: Path, policy: Mapping[str, Any]) -> Path:
    folder.mkdir(parents=True)
    file = folder / "policy.yaml"
    file.write_text(yaml.safe_dump(_policy(policy)), encoding="utf-8")
    return file


async def _start(stack: AsyncExitStack, folder: Path, policy: Mapping[str, Any], settings: Any) -> Running:
    file = _written(folder, policy)
    own = {"metrics_key": METRICS_KEY} if "tenants" in _policy(policy) else {}
    chosen = Settings(**{"policy": file, "state_dir": folder, "port": 0, "drain_s": 0.0, **own, **settings})
    gateway = Gateway(chosen)
    server = _InProcessServer(gateway, chosen)
    serving = asyncio.create_task(server.serve())
    await _eventually(lambda: server.started or serving.done(), within_s=_START_PATIENCE_S)
    assert server.started, "the server did not start"
    port = server.servers[0].sockets[0].getsockname()[1]
    http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S, verify=_NO_TLS)
    running = Running(gateway, port, server, file, http, stack, serving)
    stack.push_async_callback(running.stop)
    await stack.enter_async_context(http)
    return running


@pytest.fixture(scope="session")
def eventually() -> Callable[..., Awaitable[None]]:
    """Waits for a condition, with a deadline."""
    return _eventually


@asynccontextmanager
async def _starter(folder: Path) -> AsyncIterator[Callable[..., Awaitable[Running]]]:
    async with AsyncExitStack() as stack:
        count = 0

        async def start(policy: Mapping[str, Any] | None = None, **settings: Any) -> Running:
            nonlocal count
            count += 1
            return await _start(stack, folder / f"gateway-{count}", policy or {}, settings)

        yield start


@pytest.fixture
async def start_gateway(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Running]]]:
    """Starts gateways from policies as mappings, on free ports; keyword arguments are settings."""
    async with _starter(tmp_path) as start:
        yield start


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def start_shared_gateway(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Callable[..., Awaitable[Running]]]:
    """The same for a gateway that the tests of a module share, since a model takes its time to load."""
    async with _starter(tmp_path_factory.mktemp("shared")) as start:
        yield start


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    """An OpenTelemetry collector to which gateways export that are started from now on."""
    async with collect(_eventually) as running_collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", running_collector.endpoint)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "5")
        yield running_collector


@pytest.fixture
async def start_process(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[ServedProcess]]]:
    """Starts ``headrace serve`` on a policy as a mapping; keyword arguments are environment variables."""
    async with AsyncExitStack() as stack:

        async def start(policy: Mapping[str, Any] | None = None, **environment: str) -> ServedProcess:
            file = _written(tmp_path / "process", policy or {})
            return await stack.enter_async_context(serve_process(file, environment))

        yield start


@pytest.fixture
async def gateway_over(serve: Any, start_gateway: Any) -> AsyncIterator[Callable[..., Awaitable[tuple[Running, Any]]]]:
    """Starts a gateway over a loopback upstream that answers as a coroutine function says; gives both.

    Keyword arguments are parameters of the backend, whose name is ``up``; ``policy`` is the rest of the policy file.
    """
    async with AsyncExitStack() as stack:

        async def start(respond: Any, *, policy: Mapping[str, Any] | None = None, **fields: Any) -> tuple[Running, Any]:
            upstream = await stack.enter_async_context(serve(respond))
            backend = {"use": "openai_compatible", "base_url": upstream.url, **fields}
            return await start_gateway({"backends": {"up": backend}, **(policy or {})}), upstream

        yield start


@pytest.fixture
def events_of() -> Callable[[bytes], list[Any]]:
    """The events of a stream: parsed where they are JSON, else their text. Anything that is no event fails the test."""

    def parse(content: bytes) -> list[Any]:
        assert content.endswith(b"\n\n"), "the stream ends inside an event"
        blocks = content[:-2].split(b"\n\n")
        assert all(block.startswith(b"data: ") and b"\n" not in block for block in blocks), content[:500]
        return [msgspec.json.decode(block[6:]) if block[6:7] == b"{" else block[6:].decode() for block in blocks]

    return parse


@pytest.fixture
async def running(start_gateway: Callable[..., Awaitable[Running]]) -> Running:
    """A gateway over one fake backend, without keys."""
    return await start_gateway()
