"""Limits that gateways in processes of their own share, over Redis and over a file."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.raw_client import RawAnswer
from tests.integration.served_process import ServedProcess, serve_process
from tests.redis_servers import RedisServer

KEY = "sk-acme"
WORDS = 5
Start = Callable[..., Awaitable[list[ServedProcess]]]


def _policy(*limits: dict[str, Any]) -> dict[str, Any]:
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    return {
        "backends": {"fake": {"use": "fake", "models": ["m"], "text": "one two three four five"}},
        "tenants": {"acme": {"keys_sha256": [digest], "limits": list(limits)}},
    }


@pytest.fixture
async def gateways(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Start]:
    """Starts gateways with the same policy on one server."""
    async with AsyncExitStack() as stack:

        async def start(policy: Any, number: int) -> list[ServedProcess]:
            served = []
            for index in range(number):
                file = tmp_path / f"replica{index}" / "policy.yaml"
                file.parent.mkdir()
                file.write_text(yaml.safe_dump(policy))
                environment = {
                    "HEADRACE_REDIS_URL": redis_server.url,
                    "HEADRACE_REDIS_TIMEOUT_S": "5",
                    "HEADRACE_LEDGER": "off",
                }
                served.append(await stack.enter_async_context(serve_process(file, environment)))
            return served

        yield start


async def _ask(served: ServedProcess, *, stream: bool = False) -> RawAnswer:
    client = await served.connect()
    body = b'{"model":"m","max_tokens":%d,"stream":%s,"messages":[{"role":"user","content":"hi"}]}'
    await client.post(body % (WORDS, b"true" if stream else b"false"), headers=f"x-api-key: {KEY}\r\n")
    answer = await client.answer()
    await client.close()
    return answer


async def _ask_until_found(served: ServedProcess) -> int:
    """Asks until the gateway has found the server again; the status then."""
    while (status := (await _ask(served)).status) == 503:  # noqa: ASYNC110  # another process brings it about
        await asyncio.sleep(0.05)
    return status


async def test_a_budget_for_ten_calls_is_ten_calls_over_two_processes(gateways: Start) -> None:
    """A hundred at once, streamed and whole: ten are served, the rest is told 429, and both count the same."""
    served = await gateways(_policy({"requests": 10, "per": "day"}), 2)
    answers = await asyncio.gather(*(_ask(served[i % 2], stream=bool(i % 3)) for i in range(100)))
    assert {200: 10, 429: 90} == Counter(answer.status for answer in answers)
    assert ["0", "0"] == [(await _ask(one)).header("x-ratelimit-remaining-requests") for one in served]


async def test_tokens_are_exact_over_four_processes_with_64_clients(gateways: Start) -> None:
    """Every client asks until it is refused: what was served is the limit, to two in a hundred, and never more."""
    limit_tokens = 2000
    served = await gateways(_policy({"output_tokens": limit_tokens, "per": "day"}), 4)

    async def client(number: int) -> int:
        answers = 0
        while (await _ask(served[number % 4])).status == 200:
            answers += 1
        return answers

    used_tokens = WORDS * sum(await asyncio.gather(*(client(number) for number in range(64))))
    assert 0.98 * limit_tokens <= used_tokens <= limit_tokens


async def test_without_redis_each_goes_on_with_what_it_has_and_then_says_so(
    gateways: Start, redis_server: RedisServer
) -> None:
    """What was borrowed is served, then 503, never more than the limit; with the server back, the rest is there."""
    served = await gateways(_policy({"requests": 50, "per": "day"}), 2)
    before = Counter([(await _ask(one)).status for one in served for _ in range(5)])
    redis_server.kill()
    lost = Counter([(await _ask(one)).status for one in served for _ in range(30)])
    assert {200: 10} == before
    assert {200, 503} >= lost.keys()
    assert lost[503]
    assert before[200] + lost[200] <= 50
    redis_server.start()
    back = Counter([await _ask_until_found(one) for one in served])
    back += Counter([(await _ask(one)).status for one in served for _ in range(30)])
    assert before[200] + lost[200] + back[200] <= 50
    assert 45 <= before[200] + lost[200] + back[200]


async def test_the_workers_of_one_machine_share_their_limits_without_redis(start_process: Any) -> None:
    """Two workers, ten calls: ten."""
    served = await start_process(_policy({"requests": 10, "per": "day"}), HEADRACE_WORKERS="2")
    await asyncio.gather(*(served.until_logged(f"worker {number} serves") for number in (0, 1)))
    answers = await asyncio.gather(*(_ask(served) for _ in range(60)))
    assert {200: 10, 429: 50} == Counter(answer.status for answer in answers)
