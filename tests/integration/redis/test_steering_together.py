"""Replicas that learn together from verdicts, through a real server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.clock import SystemClock
from gateway.fleet.fleet import Fleet
from gateway.steering.tallies import Tallies
from gateway.stores.redis import RedisStore
from gateway.stores.redis_address import read_redis_address
from gateway.stores.replicas import Replicas
from tests.redis_servers import RedisServer

SOON_S = 15.0


@asynccontextmanager
async def _learning(name: str, url: str) -> AsyncIterator[tuple[Tallies, Replicas]]:
    clock = SystemClock()
    line = Replicas(name, RedisStore(read_redis_address(url), prefix="test", timeout_s=0.5), clock=clock)
    line.start(Fleet(clock=clock, shared=line, replica=name))
    tallies = Tallies(name)
    tallies.share(line)
    try:
        await _until(lambda: line.lost_for_s is None)
        yield tallies, line
    finally:
        await line.close()


async def _until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not reached():  # noqa: ASYNC110  # another task brings it about
            await asyncio.sleep(0.005)


def _know(expected: float, *all_of_them: Tallies) -> Callable[[], bool]:
    """Whether all come to that sum, after they have met once more."""

    def reached() -> bool:
        for one in all_of_them:
            one.meet()
        return all([expected] == one.total("cell", now_unix_s=0.0) for one in all_of_them)

    return reached


async def test_what_one_learns_the_others_know_also_those_who_come_later(redis_server: RedisServer) -> None:
    """And what is learned while the server is gone counts when it is back, once."""
    async with (
        _learning("a", redis_server.url) as (first, line),
        _learning("b", redis_server.url) as (second, _),
    ):
        first.add("cell", (1.0,), at_unix_s=0.0)
        second.add("cell", (2.0,), at_unix_s=0.0)
        await _until(_know(3.0, first, second))
        redis_server.kill()
        await _until(lambda: line.lost_for_s is not None)
        first.add("cell", (4.0,), at_unix_s=0.0)
        first.meet()
        redis_server.start()
        await _until(_know(7.0, first, second))
        async with _learning("late", redis_server.url) as (late, _):
            late.resume(first.record())
            await _until(_know(7.0, late))
