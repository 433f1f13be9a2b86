"""What a whole answer takes, rung by rung: both ends of HTTP alone, with its JSON read, with all that is done for it.

    python tests/benchmarks/path_ladder.py        some minutes; valgrind must be on PATH

The lower rungs are a forwarder of the very protocols that serve and ask in ``gateway.transport``, with nothing between
them: whatever stands on these two takes more. Counted are thousands of instructions a request, as in
``path_instructions.py``.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from figures import table
from path_instructions import a_request, serve
from path_scripts import SCRIPTS
from request_path import CONNECTIONS, DATE, Load
from uvicorn.config import Config
from uvicorn.server import ServerState

from gateway.transport.address import Address
from gateway.transport.client import PooledConnections
from gateway.transport.pool import Pool
from gateway.transport.request_head import RequestHead
from gateway.transport.server import protocol_class
from gateway.transport.server_limits import ServerLimits

_SCRIPT = SCRIPTS["n16"]
_JSON = "application/json"


class Asked(msgspec.Struct):
    """The least that a gateway looks at in a request."""

    model: str
    messages: list[dict[str, Any]]


class Answered(msgspec.Struct):
    """And in an answer."""

    usage: dict[str, int]


class Forwarder:
    """Serves as the pipeline does, and does nothing but hand on; where it ``reads``, it has looked at either JSON."""

    def __init__(self, connections: PooledConnections, *, reads: bool) -> None:
        self._connections = connections
        self._asked = msgspec.json.Decoder(Asked) if reads else None
        self._answered = msgspec.json.Decoder(Answered)

    async def handle(self, exchange: Any) -> None:
        """Serves one exchange to its end."""
        body = await exchange.body()
        if self._asked is not None:
            self._asked.decode(body)
        async with self._connections.post("/chat/completions", body, headers={"content-type": _JSON}) as upstream:
            pieces = []
            while piece := await upstream.piece():
                pieces.append(piece)
            answer = b"".join(pieces)
            if self._asked is not None:
                self._answered.decode(answer)
            await exchange.answer(upstream.status, ((b"content-type", _JSON.encode()),), answer)


async def forward(requests: int, *, reads: bool) -> None:
    """The run of a lower rung that is counted."""
    load = Load(_SCRIPT)
    head = RequestHead(Address.of("http://127.0.0.1:9/v1"), {})
    pool = Pool(load.dial, connect_timeout_s=5, keep_alive_s=4, max_connections=1000)
    limits = ServerLimits(max_header_bytes=65536, max_body_bytes=1 << 25, body_timeout_s=60)
    server_class = protocol_class(Forwarder(PooledConnections(head, pool), reads=reads), limits)
    config = Config(lambda: None, http=server_class, ws="none", lifespan="off", interface="asgi3", log_config=None)
    state = ServerState()
    state.default_headers = [DATE]
    clients = [load.client(server_class(config=config, server_state=state, app_state={})) for _ in range(CONNECTIONS)]
    await load.run(clients, _SCRIPT.requests // 4)
    await load.run(clients, requests)
    os._exit(0)


RUNGS = {
    "ends": "both ends of HTTP, and nothing between them",
    "json": "the JSON of request and answer read, once each",
    "by_length": "all that is done for a request, its answer's length forecast by the prompt's length",
    "learned_length": "all, as it is by default",
}


def main() -> int:
    """Counts and prints."""
    parser = argparse.ArgumentParser(description="Instructions of a whole answer, rung by rung.")
    parser.add_argument("--rung", choices=tuple(RUNGS), help=argparse.SUPPRESS)
    parser.add_argument("--bare", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rung in ("ends", "json"):
        uvloop.run(forward(options.bare, reads=options.rung == "json"))
    elif options.rung:
        uvloop.run(serve(_SCRIPT, options.rung, options.bare))
    rows = []
    for rung, title in RUNGS.items():
        rows.append([title, f"{a_request(str(Path(__file__)), '--rung', rung, '--bare') / 1000:,.0f}"])
    print(table(["a whole answer to a prompt of 1 KB", "thousand instructions"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
