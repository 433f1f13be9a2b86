"""How soon an upstream hears that nobody waits for its answer any more.

    python tests/benchmarks/hang_up.py                  500 hang-ups of each kind, two minutes
    python tests/benchmarks/hang_up.py --times 50       a short one

A client leaves by closing its socket; the upstream notes when its own connection ends. Both live in this process and
read one clock, so that what lies between is the way through the gateway. Three moments: while a whole answer is waited
for, before the first token of a stream, and in the middle of one that says nothing just then. Over both servers (our
protocol, and portable ASGI on uvicorn's own) and both clients (our pool, and httpx). Exits with 1 where one took longer
than promised.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from figures import table
from programs import HOST, free_port, stop, wait_until_up
from servers import CHAT_PATH, KEY_HEADER, ROOT, policy_text, run_headrace

PROMISED_MS = 50.0
MOMENTS = ("a whole answer", "a first token", "the rest of a stream")

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_WORD = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"w"},"finish_reason":null}]}\n\n'  # noqa: E501  # one line of the format
_PATIENCE_S = 10.0

_PORTABLE = """
import sys, uvicorn
from pathlib import Path
from gateway.app import Gateway
from gateway.settings import Settings
policy, state, port = sys.argv[1:]
gateway = Gateway(Settings(policy=Path(policy), state_dir=Path(state)))
uvicorn.run(gateway.asgi, host="127.0.0.1", port=int(port), http="httptools", log_level="error")
"""


@dataclass
class Upstream:
    """Answers nobody to the end. ``begun`` and ``ended`` are of the request that is under way."""

    speaks: bool = False
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    ended: "asyncio.Future[float]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def expect(self, *, speaks: bool) -> None:
        """The next request; ``speaks`` for an upstream that begins its stream."""
        self.speaks = speaks
        self.begun = asyncio.Event()
        self.ended = asyncio.get_running_loop().create_future()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, which ends with the client's hang-up."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        if self.speaks:
            writer.write(_HEAD + b"%x\r\n%b\r\n" % (len(_WORD), _WORD))
        self.begun.set()
        with suppress(ConnectionError):  # an abrupt end is one, too
            await reader.read()
        self.ended.set_result(time.monotonic())
        writer.close()


async def hang_up(port: int, upstream: Upstream, moment: str) -> float:
    """Milliseconds from a client's close to the end of the upstream's connection."""
    stream = moment != MOMENTS[0]
    speaks = moment == MOMENTS[2]
    upstream.expect(speaks=speaks)
    message = {"role": "user", "content": "hi"}
    body = json.dumps({"model": "mock-model", "stream": stream, "messages": [message]}).encode()
    head = f"POST {CHAT_PATH} HTTP/1.1\r\nhost: {HOST}\r\n{KEY_HEADER}\r\ncontent-length: {len(body)}\r\n\r\n"
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(head.encode() + body)
    async with asyncio.timeout(_PATIENCE_S):
        if speaks:
            await reader.readuntil(b'"w"')
        await upstream.begun.wait()
        left_s = time.monotonic()
        writer.transport.abort()
        ended_s = await upstream.ended
    return (ended_s - left_s) * 1000


@asynccontextmanager
async def upstream_on_loopback() -> AsyncIterator[tuple[Upstream, int]]:
    """The upstream, and its port."""
    upstream = Upstream()
    server = await asyncio.start_server(upstream.serve, HOST, 0)
    async with server:
        yield upstream, server.sockets[0].getsockname()[1]


@contextmanager
def run_gateway(folder: Path, upstream_port: int, *, portable: bool, transport: str) -> Iterator[int]:
    """A gateway's port: ``headrace serve``, or its ASGI application on uvicorn's own protocol if ``portable``."""
    if not portable:
        with run_headrace(folder, upstream_port, transport=transport) as server:
            yield server.port
        return
    policy, port = folder / "policy.yaml", free_port()
    policy.write_text(policy_text(upstream_port, limit=1024, queue=1024, transport=transport))
    command = [sys.executable, "-c", _PORTABLE, str(policy), str(folder / "state"), str(port)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        wait_until_up(process, port, "/healthz")
        yield port
    finally:
        stop(process)


async def measure(portable: bool, transport: str, times: int) -> dict[str, list[float]]:
    """Milliseconds of each hang-up, by moment."""
    async with upstream_on_loopback() as (upstream, upstream_port):
        with tempfile.TemporaryDirectory() as folder:
            gateway = run_gateway(Path(folder), upstream_port, portable=portable, transport=transport)
            port = await asyncio.to_thread(gateway.__enter__)
            try:
                return {
                    moment: [await hang_up(port, upstream, moment) for _ in range(times + 5)][5:] for moment in MOMENTS
                }
            finally:
                await asyncio.to_thread(gateway.__exit__, None, None, None)


def main() -> int:
    """Measures and prints; 1 where a promise is broken."""
    parser = argparse.ArgumentParser(description="How soon an upstream hears that its client has left.")
    parser.add_argument("--times", type=int, default=500, help="hang-ups of each kind")
    options = parser.parse_args()
    rows, late = [], False
    for portable in (False, True):
        for transport in ("own", "httpx"):
            taken = asyncio.run(measure(portable, transport, options.times))
            for moment, all_ms in taken.items():
                p99 = statistics.quantiles(all_ms, n=100)[98]
                late |= p99 > PROMISED_MS
                server = "portable ASGI" if portable else "own protocol"
                figures = [f"{value:.2f}" for value in (statistics.median(all_ms), p99, max(all_ms))]
                rows.append([f"{server}, {transport} client", moment, *figures])
    print(table(["gateway", "while the client waits for", "p50, ms", "p99, ms", "most, ms"], rows))
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
