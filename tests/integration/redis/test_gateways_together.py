"""Gateways in processes of their own that share what they know over Redis."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.integration.raw_client import PATIENCE_S, RawAnswer
from tests.integration.served_process import ServedProcess, serve_process
from tests.redis_servers import RedisServer

TWINS = {
    "backends": {
        name: {"use": "fake", "models": ["m"], "tokens": 400, "concurrency": 1, "seconds_per_token": 0.05}
        for name in ("left", "right")
    },
    "routes": {"all": {"models": ["m"], "targets": ["left", "right"]}},
}
MOODY = {
    "backends": {
        "moody": {"use": "fake", "models": ["m"], "fail": [{"kind": "status", "status": 429, "retry_after_s": 30}]}
    }
}
WHOLE = b'{"model":"m","max_tokens":2,"messages":[{"role":"user","content":"hi"}]}'
STREAM = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"%s"}]}' % (b"long " * 2000)

Start = Callable[..., Awaitable[ServedProcess]]


@pytest.fixture
async def gateways(tmp_path: Path, redis_server: RedisServer) -> Any:
    """Starts gateways with the same policy on one server; each is returned when it has found the others."""
    async with AsyncExitStack() as stack:

        async def start(policy: Any, number: int = 2) -> list[ServedProcess]:
            served = []
            for index in range(number):
                file = tmp_path / f"replica{index}" / "policy.yaml"
                file.parent.mkdir()
                file.write_text(yaml.safe_dump(policy))
                environment = {"HEADRACE_REDIS_URL": redis_server.url, "HEADRACE_LEDGER": "off"}
                served.append(await stack.enter_async_context(serve_process(file, environment)))
            for gateway in served:
                await _until(gateway, lambda body: body.get("shared state") == "up")
            return served

        yield start


async def _ask(served: ServedProcess, body: bytes = WHOLE) -> RawAnswer:
    client = await served.connect()
    await client.post(body)
    return await client.answer()


async def _reasons(served: ServedProcess) -> dict[str, str]:
    client = await served.connect()
    await client.send(b"GET /readyz HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
    answer = await client.answer()
    assert 200 == answer.status
    return dict(msgspec.json.decode(answer.body)["backends"])


async def _until(served: ServedProcess, reached: Callable[[dict[str, str]], bool]) -> None:
    async with asyncio.timeout(2 * PATIENCE_S):
        while not reached(await _reasons(served)):  # noqa: ASYNC110  # another process brings it about
            await asyncio.sleep(0.02)


@asynccontextmanager
async def _stream(served: ServedProcess) -> Any:
    """A long answer under way; gives the backend that serves it."""
    client = await served.connect()
    await client.post(STREAM)
    yield (await client.head()).header("x-headrace-backend")


async def test_a_rest_that_one_gateway_orders_holds_for_all(gateways: Start) -> None:
    """A 429 met by one keeps the others from asking before its time."""
    first, second = await gateways(MOODY)
    assert 429 == (await _ask(first)).status
    await _until(second, lambda reasons: reasons["moody"].startswith("cooling"))
    refused = await _ask(second)
    assert refused.status in {429, 503}
    assert 20 <= int(refused.header("retry-after")) <= 30


async def test_each_sees_the_load_that_the_others_make(gateways: Start) -> None:
    """With a long answer on one of two equal backends, begun elsewhere, the other backend is chosen."""
    first, second = await gateways(TWINS)
    async with _stream(first) as busy:
        free = ({"left", "right"} - {busy}).pop()
        async with asyncio.timeout(PATIENCE_S):
            while (await _ask(second)).header("x-headrace-backend") != free:  # noqa: ASYNC110  # until it has heard
                await asyncio.sleep(0.02)
        assert [free] * 5 == [(await _ask(second)).header("x-headrace-backend") for _ in range(5)]


async def test_while_redis_is_away_everybody_serves_on_and_says_so(gateways: Start, redis_server: RedisServer) -> None:
    """Readiness stays, names the loss, and is well again when the server is back."""
    first, second = await gateways(TWINS)
    redis_server.kill()
    await _until(first, lambda reasons: reasons["shared state"].startswith("lost"))
    assert [200, 200] == [(await _ask(first)).status, (await _ask(second)).status]
    redis_server.start()
    await _until(first, lambda reasons: reasons["shared state"] == "up")
