"""What the gateway's own code costs a request: CPU time without a socket, a neighbour, or a load client's share of it.

    python tests/benchmarks/request_path.py                        us per request: whole, 32 KB prompt, streamed
    python tests/benchmarks/request_path.py a16 --functions 40     where it goes, by function (cProfile)

The whole path in one process, everything on, as ``headrace serve`` runs it: bytes of a request go into the server's
protocol, bytes of an upstream's answer into the client's connection, and what is written on either side is looked at
and thrown away. What is missing are the system calls: an accepted byte's ``recv``, ``send`` and ``epoll_wait``. The
least of several rounds is told, which other work on the machine disturbs least; it is for comparing two states of the
code, and no figure to publish. On a machine that is never quiet, ``path_instructions.py`` counts instead.
"""

import argparse
import asyncio
import cProfile
import pstats
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import uvloop
from figures import table
from path_scripts import SCRIPTS, Script
from servers import ROOT, policy_text
from uvicorn.config import Config
from uvicorn.server import ServerState

sys.path.insert(0, str(ROOT))

from gateway.app import Gateway
from gateway.process.garbage import collect_less
from gateway.settings import Settings
from gateway.transport.address import Address
from gateway.transport.client import PooledConnections
from gateway.transport.pool import Pool
from gateway.transport.request_head import RequestHead
from gateway.transport.server import protocol_class
from gateway.transport.server_limits import ServerLimits

CONNECTIONS = 16
DATE = (b"date", b"Thu, 01 Jan 1970 00:00:00 GMT")


class _Wire(asyncio.Transport):
    """One end of a connection whose other end is a function."""

    def __init__(self, on_write: Callable[["_Wire", bytes], None], sock: socket.socket | None = None) -> None:
        super().__init__()
        self.protocol: Any = None
        self._on_write = on_write
        self._sock = sock

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._sock if name == "socket" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is no buffer."""

    def write(self, data: Any) -> None:
        self._on_write(self, data)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        """Nothing is read from a socket."""

    def resume_reading(self) -> None:
        """Likewise."""

    def close(self) -> None:
        """Nothing is open."""

    def abort(self) -> None:
        """Likewise."""
        asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


@dataclass(eq=False)
class Load:
    """Clients and upstream of one run: each client sends its next request when the last answer is out."""

    script: Script
    left: int = 0
    under_way: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._requests, self._reads = cycle(self.script.requests_sent()), self.script.reads()
        self._loop = asyncio.get_running_loop()
        self.pair = socket.socketpair()

    async def dial(self, connection: Any) -> None:
        """An upstream's connection."""
        wire = _Wire(self._asked, self.pair[0])
        wire.protocol = connection
        connection.connection_made(wire)

    def client(self, protocol: Any) -> _Wire:
        """A client's connection."""
        wire = _Wire(self._answered)
        wire.protocol = protocol
        protocol.connection_made(wire)
        return wire

    async def run(self, clients: list[_Wire], requests: int) -> None:
        """Lets the clients send so many requests, and returns when all are answered."""
        self.left, self.under_way = requests, 0
        self.over.clear()
        for wire in clients:
            self._next(wire)
        await self.over.wait()

    def _next(self, wire: _Wire) -> None:
        if self.left:
            self.left -= 1
            self.under_way += 1
            self._loop.call_soon(wire.protocol.data_received, next(self._requests))
        elif not self.under_way:
            self.over.set()

    def _answered(self, wire: _Wire, data: bytes) -> None:
        if self.script.ends(data):
            if b"HTTP/1.1 200" not in data and not self.script.stream:
                raise RuntimeError(f"the gateway answered {data[:200]!r}")
            self.under_way -= 1
            self._next(wire)

    def _asked(self, wire: _Wire, _: bytes) -> None:
        self._loop.call_soon(self._feed, wire, 0)

    def _feed(self, wire: _Wire, at: int) -> None:
        wire.protocol.data_received(self._reads[at])
        if at + 1 < len(self._reads):
            self._loop.call_soon(self._feed, wire, at + 1)


async def open_path(folder: Path, script: Script, classify: str) -> tuple[Gateway, Load, list[_Wire]]:
    """A gateway as it serves, what loads it, and its clients; all of them have been served, and caches are full."""
    policy = folder / "policy.yaml"
    policy.write_text(policy_text(9, limit=1024, queue=1024, classify=classify))
    gateway = Gateway(Settings(policy=policy, state_dir=folder / "state"))
    await gateway.start()
    load = Load(script)
    head = RequestHead(Address.of("http://127.0.0.1:9/v1"), {})
    pool = Pool(load.dial, connect_timeout_s=5, keep_alive_s=4, max_connections=1000)
    backend: Any = gateway.world.backends["upstream"]
    backend._upstream._connections = PooledConnections(head, pool)
    limits = ServerLimits(max_header_bytes=65536, max_body_bytes=1 << 25, body_timeout_s=60)
    server_class = protocol_class(gateway.pipeline, limits)
    config = Config(gateway.asgi, http=server_class, ws="none", lifespan="off", interface="asgi3", log_config=None)
    state = ServerState()
    state.default_headers = [DATE]
    clients = [load.client(server_class(config=config, server_state=state, app_state={})) for _ in range(CONNECTIONS)]
    await load.run(clients, script.requests // 4)
    collect_less()
    return gateway, load, clients


async def _serve(
    folder: Path, script: Script, classify: str, rounds: int, profile: cProfile.Profile | None
) -> dict[str, float]:
    gateway, load, clients = await open_path(folder, script, classify)
    all_us: list[float] = []
    loop_us: list[float] = []
    for _ in range(rounds):
        all_s, loop_s = time.process_time(), time.thread_time()
        if profile is not None:
            profile.enable()
        await load.run(clients, script.requests)
        if profile is not None:
            profile.disable()
        loop_us.append((time.thread_time() - loop_s) / script.requests * 1e6)
        await asyncio.sleep(0.5)  # the ledger's last batch is part of the price
        all_us.append((time.process_time() - all_s) / script.requests * 1e6)
    await gateway.close()
    return {"all": min(all_us), "loop": min(loop_us)}


def main() -> int:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description="What the gateway's own code costs a request.")
    parser.add_argument("scripts", nargs="*", default=list(SCRIPTS), help=f"some of {', '.join(SCRIPTS)}")
    parser.add_argument("--classify", default="learned_length", help="how lengths are forecast")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--functions", type=int, default=0, help="list so many functions, such as 40")
    options = parser.parse_args()
    rows = []
    for key in options.scripts:
        script = SCRIPTS[key]
        profile = cProfile.Profile() if options.functions else None
        with tempfile.TemporaryDirectory() as folder:
            cost = uvloop.run(_serve(Path(folder), script, options.classify, options.rounds, profile))
        a_chunk = f"{cost['all'] / script.chunks:.2f}" if script.chunks else ""
        rows.append([f"{key}: {script.title}", f"{cost['all']:.1f}", f"{cost['loop']:.1f}", a_chunk])
        if profile is not None:
            stats = pstats.Stats(profile)
            print(f"{options.rounds * script.requests} requests")
            stats.sort_stats("tottime").print_stats(options.functions)
    print(table(["script", "CPU us/request", "of it on the loop", "us/chunk"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
