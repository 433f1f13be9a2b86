"""An HTTP client that hides nothing: what a test writes goes out as it is, what comes back is shown as it came."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

PATIENCE_S = 10.0
"""How long a test waits for what should come at once: only a failing test ever waits so long."""


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
