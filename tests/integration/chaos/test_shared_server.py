"""The server that replicas share is paused, killed, or taken over from, while all of them serve."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.integration.chaos.fronts import Front, Start, Traffic, chat, tenant
from tests.integration.raw_client import PATIENCE_S
from tests.redis_servers import Guarded, RedisServer

CLIENTS = 3
CALLS = 300
SERVED = {200, 429, 503}
POLICY: dict[str, Any] = {
    "backends": {"made-up": {"use": "fake", "models": ["m"]}},
    "tenants": tenant({"requests": CALLS, "per": "month"}, {"concurrent": 100}),
}
Begin = Callable[..., Traffic]


async def _two(start: Start, url: str) -> list[Front]:
    fronts = [await start(POLICY, name, HEADRACE_REDIS_URL=url) for name in ("a", "b")]
    for front in fronts:
        await front.until_shared("up")
    return fronts


async def _is_over(fronts: list[Front], statuses: Traffic) -> int:
    """Uses up the limit, and looks at what is left; how many calls were served in all."""
    asked, served = statuses.statuses.total(), statuses.statuses[200]
    async with asyncio.timeout(2 * PATIENCE_S):
        refused = 0
        while refused < 2 * len(fronts) or served < CALLS:
            status = (await fronts[asked % 2].ask(chat())).status
            asked, served = asked + 1, served + (status == 200)
            refused = refused + 1 if status != 200 else 0
    for front in fronts:
        await front.until_calm()
    ended = sum([await front.until_entries(len(front.entries())) for front in fronts], start=Counter[str]())
    assert {"ok": served, "rejected": asked - served} == ended
    return served


async def test_a_server_that_stands_still(start: Start, traffic: Begin, redis_server: RedisServer) -> None:
    """Everybody serves on with what they have, or says no; when it goes on, all calls are there, and not one more."""
    fronts = await _two(start, redis_server.url)
    asking = traffic(fronts, chat(), CLIENTS)
    await asking.more(40)
    assert redis_server.process is not None
    redis_server.process.send_signal(signal.SIGSTOP)
    await asyncio.gather(*(front.until_shared("lost") for front in fronts))
    await asking.more(40)
    redis_server.process.send_signal(signal.SIGCONT)
    await asyncio.gather(*(front.until_shared("up") for front in fronts))
    await asking.more(40)
    await asking.stop()
    assert SERVED >= asking.statuses.keys()
    assert CALLS == await _is_over(fronts, asking)


async def test_a_server_that_is_started_anew_with_nothing(
    start: Start, traffic: Begin, redis_server: RedisServer
) -> None:
    """Everybody tells it what it spent: of a window it is forgotten what nobody lives to tell, and nothing else."""
    fronts = await _two(start, redis_server.url)
    asking = traffic(fronts, chat(), CLIENTS)
    await asking.more(40)
    redis_server.kill()
    await asyncio.gather(*(front.until_shared("lost") for front in fronts))
    await asking.more(40)
    redis_server.start()
    await asyncio.gather(*(front.until_shared("up") for front in fronts))
    await asking.more(40)
    await asking.stop()
    assert SERVED >= asking.statuses.keys()
    assert CALLS == await _is_over(fronts, asking)


async def test_a_failover_under_way(start: Start, traffic: Begin, redis_guarded: Guarded) -> None:
    """The sentinels make the replica master: what its master had not told it, the gateways tell."""
    fronts = await _two(start, redis_guarded.url)
    asking = traffic(fronts, chat(), CLIENTS)
    await asking.more(40)
    redis_guarded.master.kill()
    await asyncio.gather(*(front.until_shared("lost") for front in fronts))
    await asking.more(40)
    await asyncio.gather(*(front.until_shared("up") for front in fronts))
    await asking.more(40)
    await asking.stop()
    assert SERVED >= asking.statuses.keys()
    assert CALLS == await _is_over(fronts, asking)
