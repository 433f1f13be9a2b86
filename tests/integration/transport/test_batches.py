"""What arrives together leaves together: the number of writes is that of reads, not that of chunks."""

import asyncio
from typing import Any

import msgspec
import pytest

STREAMED_CHAT = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'
CHUNKS = 64


class _Counting:
    """A transport that notes each write."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.writes: list[bytes] = []
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        """Everything else is the transport's."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """See ``asyncio.WriteTransport``."""
        self.writes.append(data)
        self._transport.write(data)


def _event(text: str, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return b"data: " + msgspec.json.encode({"choices": [choice]}) + b"\n\n"


def _chunk(event: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(event), event)


@pytest.mark.parametrize("with_end", [False, True])
async def test_chunks_of_one_read_are_one_write(gateway_over: Any, events_of: Any, with_end: bool) -> None:
    """Many chunks that one read brings are one write to the client; the end of the stream is one more."""
    go = asyncio.Event()
    batch = b"".join(_chunk(_event(str(number))) for number in range(CHUNKS))
    last = _chunk(_event("", "stop")) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.stream(_event("first"), end=False)
        await go.wait()
        await conversation.send(*((batch + last,) if with_end else (batch,)))
        await conversation.until_closed()

    front, _ = await gateway_over(respond)
    client = await front.raw()
    await client.post(STREAMED_CHAT)
    await client.head()
    pieces = client.chunks()
    await anext(pieces)
    (connection,) = front.server.server_state.connections
    connection.transport = counting = _Counting(connection.transport)
    go.set()
    if with_end:
        received = b"".join([piece async for piece in pieces])
        assert CHUNKS + 2 == len(events_of(received))
        assert b"0\r\n\r\n" == counting.writes.pop()
    else:
        received = await anext(pieces)
        assert [str(number) for number in range(CHUNKS)] == [
            event["choices"][0]["delta"]["content"] for event in events_of(received)
        ]
    assert [_chunk(received)] == counting.writes
