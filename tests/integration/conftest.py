"""A real gateway on a loopback port, in the test's own event loop, and clients that talk to it over real sockets."""

import asyncio
import hashlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import openai
import pytest
import yaml

from gateway.app import Gateway
from gateway.commands.serve import _Server
from gateway.settings import Settings

KEY = "sk-acme-0123456789"
PATIENCE_S = 10.0
"""How long a test waits for what should come at once: only a failing test ever waits so long."""


_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Empty: loading the usual certificates costs each client 40 ms, and nothing here speaks TLS."""


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
    """The server of ``headrace serve``, its signals left to pytest."""

    @contextmanager
    def capture_signals(self) -> Any:
        """Takes none."""
        yield


@dataclass
class RawAnswer:
    """One HTTP answer as it stood on the wire. Header names are in lower case, in their order."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""

    def header(self, name: str) -> str:
        """The one value of a header, empty where it is not there."""
        values = [value for key, value in self.headers if key == name]
        assert len(values) <= 1, f"{name} is there {len(values)} times"
        return values[0] if values else ""

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return msgspec.json.decode(self.body)


@dataclass
class RawClient:
    """One connection, on which a test says and reads what it likes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, *pieces: bytes) -> None:
        """Sends pieces, each in a write of its own."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def post(self, body: bytes, *, path: str = "/v1/chat/completions", headers: str = "") -> None:
        """Sends a POST request with its length."""
        head = f"POST {path} HTTP/1.1\r\nhost: h\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
        await self.send(head.encode("latin-1") + body)

    async def head(self) -> RawAnswer:
        """Reads a status line and headers."""
        async with asyncio.timeout(PATIENCE_S):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines[1:-2])]
        return RawAnswer(int(lines[0].split(" ")[1]), headers)

    async def answer(self) -> RawAnswer:
        """Reads one answer to its end, which is the connection's where it names no other."""
        answer = await self.head()
        async with asyncio.timeout(PATIENCE_S):
            if answer.header("transfer-encoding") == "chunked":
                answer.body = b"".join([piece async for piece in self.chunks()])
            elif length := answer.header("content-length"):
                answer.body = await self.reader.readexactly(int(length))
            else:
                answer.body = await self.reader.read()
        return answer

    async def chunks(self) -> AsyncIterator[bytes]:
        """The pieces of a chunked body as they come."""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readuntil(b"\r\n")

    async def until_closed(self) -> bytes:
        """The rest, up to the server's closing the connection."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.read()

    def hang_up(self) -> None:
        """Leaves without a word."""
        self.writer.transport.abort()

    async def close(self) -> None:
        """Gives the socket back; idempotent."""
        self.hang_up()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@dataclass
class Running:
    """A gateway that serves. ``http`` and ``raw`` speak to it; its inside is there to be looked at."""

    gateway: Gateway
    port: int
    server: _Server
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
        ids = await asyncio.to_thread(rows._read, "SELECT DISTINCT id FROM requests ORDER BY seq", ())
        return [row for (request_id,) in ids for row in await rows.find(request_id)]

    async def row(self) -> dict[str, Any]:
        """The only request on the ledger, as soon as it has ended."""
        await _eventually(lambda: self.gateway._ledger.recorded == 1)
        (row,) = await self.rows()
        return row

    async def series(self) -> dict[str, float]:
        """The samples of ``/metrics`` by name and labels."""
        response = await self.http.get("/metrics", headers={"authorization": f"Bearer {KEY}"})
        assert response.status_code == 200
        lines = [line for line in response.text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    async def stop(self) -> None:
        """Stops the server as the end of a drain does; idempotent."""
        self.server.should_exit = True
        await self._serving


def _chat(body: Mapping[str, Any] | None, path: str) -> dict[str, Any]:
    prompt: dict[str, Any] = {"messages": [{"role": "user", "content": "Say a few words."}]}
    if path.endswith("/v1/completions"):
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
    chosen = Settings(**{"policy": file, "state_dir": folder, "port": 0, "drain_s": 0.0, **settings})
    gateway = Gateway(chosen)
    server = _InProcessServer(gateway, chosen)
    serving = asyncio.create_task(server.serve())
    await _eventually(lambda: server.started or serving.done())
    assert server.started, "the server did not start"
    port = server.servers[0].sockets[0].getsockname()[1]
    http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S, verify=_NO_TLS)
    running = Running(gateway, port, server, file, http, stack, serving)
    stack.push_async_callback(running.stop)
    await stack.enter_async_context(http)
    return running


@pytest.fixture
def eventually() -> Callable[..., Awaitable[None]]:
    """Waits for a condition, with a deadline."""
    return _eventually


@pytest.fixture
async def start_gateway(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Running]]]:
    """Starts gateways from policies as mappings, on free ports; keyword arguments are settings."""
    async with AsyncExitStack() as stack:
        count = 0

        async def start(policy: Mapping[str, Any] | None = None, **settings: Any) -> Running:
            nonlocal count
            count += 1
            return await _start(stack, tmp_path / f"gateway-{count}", policy or {}, settings)

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
