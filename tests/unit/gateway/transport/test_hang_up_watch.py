"""Hang-ups are heard while nothing is read, on real sockets and on both event loops."""

import asyncio
import select
import socket
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from gateway.transport.hang_up_watch import WatchedFlowControl

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="Linux alone tells of a hang-up without reading")


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()


LEAVES: dict[str, Callable[[socket.socket], None]] = {
    "closes": socket.socket.close,
    "half-closes": lambda client: client.shutdown(socket.SHUT_WR),
    "resets": _reset,
}


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("leave", LEAVES.values(), ids=LEAVES)
@pytest.mark.parametrize("unread", [b"", b"bytes that nobody reads"])
def test_a_hang_up_is_heard_while_reading_is_paused(new_loop: Any, leave: Any, unread: bytes) -> None:
    """However the client leaves, and whatever it sent before."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        connected: asyncio.Future[Any] = loop.create_future()

        class Server(asyncio.Protocol):
            def connection_made(self, transport: Any) -> None:
                connected.set_result(transport)

        server = await loop.create_server(Server, "127.0.0.1", 0)
        client = socket.create_connection(server.sockets[0].getsockname())
        transport = await connected
        heard = asyncio.Event()
        flow = WatchedFlowControl(transport, loop, heard.set)
        flow.pause_reading()
        client.sendall(unread)
        flow.resume_reading()
        flow.pause_reading()
        assert not heard.is_set()
        leave(client)
        await asyncio.wait_for(heard.wait(), 5)
        transport.abort()
        client.close()
        server.close()
        await server.wait_closed()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())
