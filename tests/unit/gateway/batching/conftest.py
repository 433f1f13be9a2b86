"""Gateways that take batches, and clients that hand them in."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest

from gateway.app import Gateway

PATIENCE_S = 20.0
KEYS = {"acme": "sk-acme", "beta": "sk-beta"}
CHAT = "/v1/chat/completions"
POLICY = """
    backends:
      a: {use: fake, text: one two three, models: {small: {price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}}}}
    routes:
      r: {models: [small], targets: [a/small], cost: [money]}
"""
TENANTS = "\n    tenants:\n" + "\n".join(
    f"      {name}: {{keys_sha256: [{hashlib.sha256(key.encode()).hexdigest()}]}}" for name, key in KEYS.items()
)
OVER = frozenset(("completed", "failed", "expired", "cancelled"))


def line(custom_id: str, *, url: str = CHAT, **body: Any) -> dict[str, Any]:
    """A line of a batch's file; ``body`` goes over a chat that is answered."""
    asked = {"model": "small", "messages": [{"role": "user", "content": "Say a few words."}]}
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": {**asked, **body}}


def jsonl(lines: Sequence[Any]) -> bytes:
    """Lines as a file; those that are bytes go in as they are."""
    return b"\n".join(one if isinstance(one, bytes) else msgspec.json.encode(one) for one in lines)


class Client:
    """A tenant's client of a gateway in the same event loop."""

    def __init__(self, gateway: Gateway, http: httpx.AsyncClient) -> None:
        self.gateway = gateway
        self.clock: Any = gateway._clock
        self.http = http

    async def upload(self, content: bytes | Sequence[Any], **fields: str) -> dict[str, Any]:
        """Leaves a file; its object."""
        answer = await self.send_file(content, **fields)
        assert 200 == answer.status_code, answer.text
        return answer.json()

    async def send_file(self, content: bytes | Sequence[Any], **fields: str) -> httpx.Response:
        """The same, whatever comes of it."""
        data = content if isinstance(content, bytes) else jsonl(content)
        form = {"purpose": "batch", **fields}
        return await self.http.post("/v1/files", files={"file": ("in.jsonl", data)}, data=form)

    async def hand_in(self, content: bytes | Sequence[Any], endpoint: str = CHAT, **fields: Any) -> dict[str, Any]:
        """Leaves a file and makes a batch of it; the batch."""
        file = await self.upload(content)
        headers = fields.pop("headers", {})
        asked = {"input_file_id": file["id"], "endpoint": endpoint, "completion_window": "24h", **fields}
        answer = await self.http.post("/v1/batches", json=asked, headers=headers)
        assert 200 == answer.status_code, answer.text
        return answer.json()

    async def batch(self, batch_id: str) -> dict[str, Any]:
        """How it is now."""
        answer = await self.http.get(f"/v1/batches/{batch_id}")
        assert 200 == answer.status_code, answer.text
        return answer.json()

    async def until(self, batch_id: str, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The batch as soon as something holds of it; each look is a question to its database."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = await self.batch(batch_id)
                if holds(found):
                    return found

    async def over(self, batch_id: str) -> dict[str, Any]:
        """The batch as soon as nothing happens to it any more."""
        return await self.until(batch_id, lambda batch: batch["status"] in OVER)

    async def over_in_time(self, batch_id: str, step_s: float = 30.0) -> dict[str, Any]:
        """The same while time passes, for what waits before it comes again."""

        def passes(batch: dict[str, Any]) -> bool:
            self.clock.advance(step_s)
            return batch["status"] in OVER

        return await self.until(batch_id, passes)

    async def rows(self) -> list[dict[str, Any]]:
        """All requests on the ledger's disk, oldest first, each with its ``attempts_made``."""
        self.gateway._ledger.flush()
        rows = self.gateway._rows
        assert rows is not None
        assert await rows.flush()
        ids = await rows.tables.rows("SELECT id FROM requests ORDER BY seq")
        return [row for (request_id,) in ids for row in await rows.find(request_id)]

    async def ask(self) -> httpx.Response:
        """A chat of somebody who waits for the answer."""
        body = {"model": "small", "messages": [{"role": "user", "content": "hi"}]}
        return await self.http.post(CHAT, json=body)

    async def lines(self, file_id: str | None) -> list[dict[str, Any]]:
        """What is in a file that came out of a batch; nothing where there is none."""
        if file_id is None:
            return []
        content = await self.http.get(f"/v1/files/{file_id}/content")
        assert 200 == content.status_code, content.text
        return [msgspec.json.decode(one) for one in content.content.splitlines()]

    def backend(self, name: str = "a") -> Any:
        """A backend of the gateway."""
        return self.gateway.world.backends[name]

    async def eventually_rows(self, expected: int, step_s: float = 0.0) -> None:
        """Returns when the database has so many files, whole or not, and no piece of any other; time passes."""
        tables = (await self.gateway._annex.wing())._batches._tables
        async with asyncio.timeout(PATIENCE_S):
            while True:
                ((files, pieces),) = await tables.rows(
                    "SELECT count(*), (SELECT count(DISTINCT file_id) FROM file_pieces) FROM files"
                )
                if (files, pieces) == (expected, expected):
                    return
                self.clock.advance(step_s)

    async def eventually(self, condition: Callable[[], object]) -> None:
        """Returns when it holds; for states that nobody announces with an event."""
        turn, loop = asyncio.Event(), asyncio.get_running_loop()
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                loop.call_later(0.001, turn.set)
                await turn.wait()
                turn.clear()


@pytest.fixture
def gate(make_site: Any) -> Callable[..., AbstractAsyncContextManager[Client]]:
    """Starts a gateway on the hand's clock and gives its client; ``key`` locks it, other arguments are settings."""

    @asynccontextmanager
    async def open_gate(
        policy: str = POLICY, *, key: str | None = None, tenants: str = TENANTS, **settings: Any
    ) -> AsyncIterator[Client]:
        site = make_site(**settings)
        text = policy + (tenants if key is not None else "")
        async with site.running(text) as gateway, client_of(gateway, key) as client:
            yield client

    return open_gate


@asynccontextmanager
async def client_of(gateway: Gateway, key: str | None = None) -> AsyncIterator[Client]:
    """A client of a gateway, with a key or without."""
    transport = httpx.ASGITransport(app=gateway.asgi, raise_app_exceptions=False)
    headers = {"authorization": f"Bearer {key}"} if key is not None else {}
    async with httpx.AsyncClient(transport=transport, base_url="http://gate", headers=headers) as http:
        yield Client(gateway, http)
