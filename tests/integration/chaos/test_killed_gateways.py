"""``kill -9`` with requests under way: what they held comes back by itself, and what was spent stays spent."""

import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from gateway.limits.lender import LEASE_S
from tests.integration.chaos.fronts import Front, Start, chat, tenant
from tests.integration.raw_client import PATIENCE_S, RawClient
from tests.loopback import Conversation, Received
from tests.redis_servers import RedisServer

ANSWER = (
    b'{"object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant",'
    b'"content":"hi"}}],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}}'
)
WORD = b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word"}}]}\n\n'
PLACES = 4
CALLS = 12


async def _respond(request: Received, conversation: Conversation) -> None:
    """A whole answer at once, or the first word of a stream that goes on until somebody leaves."""
    if not request.json.get("stream"):
        await conversation.answer(ANSWER)
        return
    await conversation.stream(WORD, end=False)
    await conversation.until_closed()


def _policy(url: str) -> dict[str, Any]:
    return {
        "backends": {"up": {"use": "openai_compatible", "base_url": url, "models": ["m"]}},
        "tenants": tenant({"concurrent": PLACES}, {"requests": CALLS, "per": "month"}),
    }


async def _stream(front: Front) -> RawClient | None:
    """A stream under way, or ``None`` where there is no place."""
    client = await front.begin(chat(stream=True))
    if (await client.head()).status == 200:
        return client
    await client.close()
    return None


async def _all_places(front: Front) -> list[RawClient]:
    """As many streams under way as there are places, as soon as they can be had."""
    held: list[RawClient] = []
    async with asyncio.timeout(LEASE_S + PATIENCE_S):
        while len(held) < PLACES:
            if (client := await _stream(front)) is None:
                await asyncio.sleep(0.1)
            else:
                held.append(client)
    return held


async def _has_calls_left(front: Front, calls: int) -> None:
    """So many calls are served, and not one more.

    What one worker has borrowed and not used, a place or a call, is another's within a second, when the accounts have
    been told: until then that one refuses.
    """
    served = refused = 0
    async with asyncio.timeout(2 * PATIENCE_S):
        while served < calls or refused < 2 * PLACES:
            answer = await front.ask(chat())
            assert answer.status in {200, 429}, answer
            served, refused = (served + 1, 0) if answer.status == 200 else (served, refused + 1)
            await asyncio.sleep(0.1 if refused else 0)
    assert calls == served
    assert f"is {CALLS} requests per month".encode() in answer.body


def _told_spent(server: RedisServer) -> int:
    """What all replicas have told of the calls that they have spent."""
    with server.client() as client:
        lines = [line for key in client.scan_iter("*/requests/month@*") for line in client.hvals(key)]
    return sum(int(line.split()[1]) for line in lines)


async def test_what_a_killed_replica_held_is_free_after_its_lease(
    start: Start, serve: Any, redis_server: RedisServer, eventually: Callable[..., Awaitable[None]]
) -> None:
    """Its connections close, its places and calls are another's after 10 s; started anew it goes on where it was."""
    async with serve(_respond) as upstream:
        policy, shared = _policy(upstream.url), {"HEADRACE_REDIS_URL": redis_server.url}
        killed, other = [await start(policy, name, **shared) for name in ("killed", "other")]
        for front in (killed, other):
            await front.until_shared("up")
        assert [200, 200] == [(await killed.ask(chat())).status for _ in range(2)]
        await killed.until_entries(2)
        await eventually(lambda: 2 == _told_spent(redis_server))
        for _ in range(PLACES):
            assert await _stream(killed) is not None
        assert await _stream(other) is None
        killed.served.process.kill()
        await upstream.until(lambda one: one.answering == 0)
        held = await _all_places(other)
        assert await _stream(other) is None
        for client in held:
            client.hang_up()
        await upstream.until(lambda one: one.answering == 0)
        await other.until_calm()
        await _has_calls_left(other, CALLS - 2 - PLACES)
        again = await start(policy, "killed", **shared)
        await again.until_shared("up")
        assert 429 == (await again.ask(chat())).status
        assert {"ok": 2, "rejected": 1} == await again.until_entries(3)
        ended = await other.until_entries(len(other.entries()))
        assert {"ok", "client_gone", "rejected"} == ended.keys()
        assert CALLS == 2 + ended["ok"] + ended["client_gone"]


async def test_what_a_killed_worker_held_is_free_after_its_lease(start: Start, serve: Any) -> None:
    """Both workers are killed, and others come: nobody remembers but the accounts' file."""
    async with serve(_respond) as upstream:
        front = await start(_policy(upstream.url), HEADRACE_WORKERS="2")
        await asyncio.gather(*(front.served.until_logged(f"worker {number} serves") for number in (0, 1)))
        for _ in range(PLACES):
            assert await _stream(front) is not None
        for worker in re.findall(r"worker \d serves \(process (\d+)\)", "".join(front.served.log)):
            os.kill(int(worker), signal.SIGKILL)
        await front.served.until_logged(r"(?s)(worker \d serves.*){4}")
        await upstream.until(lambda one: one.answering == 0)
        held = await _all_places(front)
        assert await _stream(front) is None
        for client in held:
            client.hang_up()
        await upstream.until(lambda one: one.answering == 0)
        await front.until_calm()
        await _has_calls_left(front, CALLS - PLACES)
