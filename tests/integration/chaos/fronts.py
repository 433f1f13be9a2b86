"""Gateways in processes of their own that things are done to, and what must be true when it is over."""

import asyncio
import hashlib
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from tests.integration.raw_client import PATIENCE_S, RawAnswer, RawClient
from tests.integration.served_process import ServedProcess

KEY = "sk-acme"
_AGAIN_S = 0.02
_ZERO = ("headrace_in_flight", "headrace_queued", "headrace_backend_in_flight", "headrace_ledger_spooled")


async def _turn() -> None:
    """A moment for the other process, whose state nobody announces."""
    await asyncio.sleep(_AGAIN_S)


def chat(*, stream: bool = False, model: str = "m", max_tokens: int = 5) -> bytes:
    """A small chat."""
    body = b'{"model":"%b","max_tokens":%d,"stream":%b,"messages":[{"role":"user","content":"hi"}]}'
    return body % (model.encode(), max_tokens, b"true" if stream else b"false")


def tenant(*limits: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a policy file with the one tenant that asks, and its limits."""
    return {"acme": {"keys_sha256": [hashlib.sha256(KEY.encode()).hexdigest()], "limits": list(limits)}}


@dataclass
class Front:
    """One gateway and whoever speaks to it."""

    served: ServedProcess

    async def begin(self, body: bytes) -> RawClient:
        """Sends a request on a connection of its own."""
        client = await self.served.connect()
        await client.post(body, headers=f"x-api-key: {KEY}\r\n")
        return client

    async def ask(self, body: bytes) -> RawAnswer:
        """A whole answer."""
        client = await self.begin(body)
        answer = await client.answer()
        await client.close()
        return answer

    async def get(self, path: str) -> RawAnswer:
        """A page."""
        client = await self.served.connect()
        await client.send(f"GET {path} HTTP/1.1\r\nhost: h\r\nx-api-key: {KEY}\r\nconnection: close\r\n\r\n".encode())
        answer = await client.answer()
        await client.close()
        return answer

    async def gauges(self) -> dict[str, float]:
        """What is under way now, by name and labels."""
        lines = (await self.get("/metrics")).body.decode().splitlines()
        samples = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}
        return {name: value for name, value in samples.items() if name.startswith(_ZERO)}

    async def until_calm(self) -> None:
        """Returns when all gauges of what is under way are zero."""
        gauges: dict[str, float] = {}
        try:
            async with asyncio.timeout(PATIENCE_S):
                while any((gauges := await self.gauges()).values()):
                    await _turn()
        except TimeoutError:
            raise AssertionError(f"this is left: {gauges}") from None

    async def until_shared(self, beginning: str) -> None:
        """Returns when readiness says so of the shared state."""
        async with asyncio.timeout(2 * PATIENCE_S):
            while not (await self.get("/readyz")).json["backends"].get("shared state", "").startswith(beginning):
                await _turn()

    def entries(self) -> dict[str, str]:
        """The ledger's requests and how they ended; two rows of one request are a mistake."""
        with closing(sqlite3.connect(self.served.policy_file.parent / "ledger.sqlite3")) as ledger:
            rows = ledger.execute("SELECT id, status FROM requests").fetchall()
        assert [] == [name for name, count in Counter(name for name, _ in rows).items() if count > 1]
        return dict(rows)

    async def until_entries(self, number: int) -> Counter[str]:
        """How often requests ended in each way, as soon as all have."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.entries()) < number:
                await _turn()
        assert number == len(self.entries())
        return Counter(self.entries().values())


@dataclass
class Traffic:
    """Clients that ask one after the other until they are told to stop. ``statuses`` counts their answers."""

    statuses: Counter[int] = field(default_factory=Counter)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _stopped: bool = False
    _came: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def client(self, front: Front, body: bytes) -> None:
        """One of them."""
        while not self._stopped:
            status = (await front.ask(body)).status
            async with self._came:
                self.statuses[status] += 1
                self._came.notify_all()

    async def more(self, number: int) -> None:
        """Returns when so many more have been answered."""
        wanted = self.statuses.total() + number
        async with asyncio.timeout(2 * PATIENCE_S), self._came:
            await self._came.wait_for(lambda: self.statuses.total() >= wanted)

    async def stop(self) -> None:
        """Returns when each client has had its last answer."""
        self._stopped = True
        await asyncio.gather(*self.tasks)


Start = Callable[..., Awaitable[Front]]
