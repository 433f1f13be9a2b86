"""A gateway before an upstream that speaks nothing but HTTP/2, by prior knowledge and over TLS."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
WHOLE = msgspec.json.encode(
    {"choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}
)
WORD = b'data: {"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":null}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


@dataclass
class Upstream:
    """What it was asked, and how many connections it has. ``endless`` streams stop in their middle and stay open."""

    url: str = ""
    endless: bool = False
    requests: list[dict[bytes, bytes]] = field(default_factory=list)
    open: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        self.open += 1
        connection = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        body = b""
        while data := await reader.read(65536):
            for event in connection.receive_data(data):
                if isinstance(event, RequestReceived):
                    self.requests.append(dict(event.headers))
                    body = b""
                elif isinstance(event, DataReceived):
                    body += event.data
                elif isinstance(event, StreamEnded):
                    self._answer(connection, event.stream_id, msgspec.json.decode(body))
            writer.write(connection.data_to_send())
        self.open -= 1
        writer.close()

    def _answer(self, connection: H2Connection, stream: int, request: Any) -> None:
        streamed = request.get("stream", False)
        kind = "text/event-stream" if streamed else "application/json"
        connection.send_headers(stream, [(":status", "200"), ("content-type", kind)])
        for piece in (WORD, END) if streamed else (WHOLE,):
            last = piece is END or not streamed
            if not (last and self.endless):
                connection.send_data(stream, piece, end_stream=last)


@pytest.fixture
async def begin(start_gateway: Any, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Starts such an upstream, and a gateway before it."""
    async with AsyncExitStack() as stack:

        async def start(*, tls: bool = False) -> tuple[Any, Upstream]:
            upstream, context, trust = Upstream(), None, {}
            if tls:
                authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
                authority.issue_cert("127.0.0.1").configure_cert(context)
                context.set_alpn_protocols(["h2"])
                authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
                trust = {"verify": str(tmp_path / "authority.pem")}
            server = await stack.enter_async_context(
                await asyncio.start_server(upstream.serve, "127.0.0.1", ssl=context)
            )
            port = server.sockets[0].getsockname()[1]
            upstream.url = f"http{'s' if tls else ''}://127.0.0.1:{port}/v1"
            up = {"use": "openai_compatible", "base_url": upstream.url, "transport": "http2", "models": ["m"], **trust}
            return await start_gateway({"backends": {"up": up}}), upstream

        yield start


@pytest.mark.parametrize("tls", [False, True])
async def test_answers_come_over_http2(begin: Any, tls: bool) -> None:
    """Whole ones and streams, over one connection that is kept in between."""
    front, upstream = await begin(tls=tls)
    whole = await front.post(CHAT)
    streamed = await front.post({**CHAT, "stream": True})
    assert [200, 200] == [whole.status_code, streamed.status_code]
    assert "ok" == whole.json()["choices"][0]["message"]["content"]
    assert streamed.content.startswith(WORD)
    assert streamed.content.endswith(b"data: [DONE]\n\n")
    assert [(b"POST", b"/v1/chat/completions")] * 2 == [(one[b":method"], one[b":path"]) for one in upstream.requests]
    assert 1 == upstream.open


async def test_a_hang_up_ends_the_upstream_over_http2(begin: Any, eventually: Any) -> None:
    """A client that leaves in the middle of a stream closes the connection to the upstream."""
    front, upstream = await begin()
    upstream.endless = True
    client = await front.raw()
    await client.post(msgspec.json.encode({**CHAT, "stream": True}))
    assert 200 == (await client.head()).status
    client.hang_up()
    await eventually(lambda: upstream.open == 0)
