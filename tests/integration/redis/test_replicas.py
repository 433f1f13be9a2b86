"""Replicas that hear of each other through a real server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from gateway.clock import SystemClock
from gateway.fleet.events import Dispatched, FleetEvent, Landed, Left
from gateway.stores.redis import RedisStore
from gateway.stores.redis_address import read_redis_address
from gateway.stores.replicas import Replicas
from tests.redis_servers import Guarded, RedisServer

SOON_S = 15.0


class Listener:
    """A replica, what it has heard, and what it has under way."""

    def __init__(self, name: str, url: str) -> None:
        self.heard: list[FleetEvent] = []
        self.mine: list[FleetEvent] = []
        store = RedisStore(read_redis_address(url), prefix="test", timeout_s=0.5)
        self.line = Replicas(name, store, clock=SystemClock())

    def hear(self, event: FleetEvent) -> None:
        """See ``Picture``."""
        self.heard.append(event)

    def under_way(self) -> tuple[FleetEvent, ...]:
        """See ``Picture``."""
        return tuple(self.mine)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Waits for what another task or process brings about."""
        async with asyncio.timeout(SOON_S):
            while not reached():  # noqa: ASYNC110  # another process brings it about
                await asyncio.sleep(0.005)

    async def connected(self) -> None:
        """Waits for the store."""
        await self.until(lambda: self.line.lost_for_s is None)


@asynccontextmanager
async def _listening(name: str, url: str) -> AsyncIterator[Listener]:
    listener = Listener(name, url)
    listener.line.start(listener)
    try:
        await listener.connected()
        yield listener
    finally:
        await listener.line.close()


def _dispatched(replica: str, flight: int) -> Dispatched:
    return Dispatched(
        replica=replica,
        flight=flight,
        backend="vllm-1",
        model="llama",
        prompt_tokens=900,
        fresh_tokens=400,
        output_tokens=200,
        streams=True,
        digests=bytes(32),
    )


async def _who_is_heard(url: str) -> tuple[set[str], set[str]]:
    """Whose events each of two replicas has heard, when each has told something."""
    async with _listening("a", url) as a, _listening("b", url) as b:
        a.line.tell(_dispatched("a", 1))
        b.line.tell(Landed(replica="b", flight=9))
        await a.until(lambda: Landed(replica="b", flight=9) in a.heard)
        await b.until(lambda: any(isinstance(event, Dispatched) for event in b.heard))
        return {event.replica for event in a.heard}, {event.replica for event in b.heard}


async def test_each_hears_the_other_and_not_itself(redis_server: RedisServer) -> None:
    """Events reach the others, in their order, never oneself."""
    assert ({"b"}, {"a"}) == await _who_is_heard(redis_server.url)


async def test_a_cluster_carries_it(redis_cluster: list[RedisServer]) -> None:
    """The same over three masters."""
    places = ",".join(f"127.0.0.1:{server.port}" for server in redis_cluster)
    assert ({"b"}, {"a"}) == await _who_is_heard(f"redis+cluster://{places}")


async def test_a_fact_is_known_everywhere_and_to_who_comes_later(redis_server: RedisServer) -> None:
    """What one puts, the others get; one that starts later finds it; taking it away reaches all."""
    async with AsyncExitStack() as stack:
        a = await stack.enter_async_context(_listening("a", redis_server.url))
        b = await stack.enter_async_context(_listening("b", redis_server.url))
        a.line.put("cool:groq", "429", 60.0)
        await b.until(lambda: b.line.get("cool:groq") is not None)
        late = await stack.enter_async_context(_listening("late", redis_server.url))
        await late.until(lambda: late.line.get("cool:groq") is not None)
        value, left_s = late.line.get("cool:groq") or ("", 0.0)
        assert "429" == value
        assert 50 < left_s <= 60
        late.line.put("cool:groq", "", 0)
        await a.until(lambda: a.line.get("cool:groq") is None)


async def test_one_that_joins_hears_what_was_and_how_long_ago(redis_server: RedisServer) -> None:
    """The stream tells a newcomer of attempts before its time, with their age."""
    async with _listening("a", redis_server.url) as a:
        a.line.tell(_dispatched("a", 1))
        await asyncio.sleep(0.3)
        async with _listening("b", redis_server.url) as b:
            await b.until(lambda: any(isinstance(event, Dispatched) for event in b.heard))
            (told,) = (event for event in b.heard if isinstance(event, Dispatched))
            assert 0.2 < told.age_s < SOON_S


async def test_one_that_leaves_says_so(redis_server: RedisServer) -> None:
    """The last word of a replica is that it is gone."""
    async with _listening("a", redis_server.url) as a:
        async with _listening("b", redis_server.url):
            pass
        await a.until(lambda: Left("b") in a.heard)


async def test_while_the_store_is_gone_each_goes_on_and_then_says_how_things_stand(redis_server: RedisServer) -> None:
    """Facts wait for the store, stale events are dropped and counted, and what is under way is told anew."""
    async with _listening("a", redis_server.url) as a, _listening("b", redis_server.url) as b:
        redis_server.kill()
        a.line.put("cool:groq", "429", 60.0)
        a.line.tell(_dispatched("a", 1))
        await a.until(lambda: a.line.dropped > 0 and a.line.lost_for_s is not None)
        assert a.line.get("cool:groq") is not None
        a.mine = [_dispatched("a", 2)]
        redis_server.start()
        await b.until(lambda: b.line.get("cool:groq") is not None)
        await b.until(lambda: 2 in {event.flight for event in b.heard if isinstance(event, Dispatched)})
        assert 1 not in {event.flight for event in b.heard if isinstance(event, Dispatched)}


async def test_a_server_whose_clock_is_behind_is_heard_all_the_same(redis_server: RedisServer) -> None:
    """One that comes back empty numbers its entries by its clock, and theirs may be smaller than those before."""
    async with _listening("a", redis_server.url) as a, _listening("b", redis_server.url) as b:
        with redis_server.client() as client:
            client.xadd("{test}:events", {"b": b"\xc1 nonsense"}, id="99999999999999-0")
        await a.until(lambda: a.line.unread == b.line.unread == 1)
        redis_server.kill()
        await a.until(lambda: a.line.lost_for_s is not None and b.line.lost_for_s is not None)
        redis_server.start()
        await b.connected()
        b.line.tell(Landed(replica="b", flight=1))
        await a.until(lambda: Landed(replica="b", flight=1) in a.heard)


async def test_a_failover_loses_nobody(redis_guarded: Guarded) -> None:
    """When the sentinels make the replica master, both go on there."""
    async with _listening("a", redis_guarded.url) as a, _listening("b", redis_guarded.url) as b:
        redis_guarded.master.kill()
        a.line.put("cool:groq", "429", 600.0)
        await b.until(lambda: b.line.get("cool:groq") is not None)
        assert redis_guarded.replica.client().exists("{test}:fact:cool:groq")


async def test_what_cannot_be_read_is_counted_and_passed_over(redis_server: RedisServer) -> None:
    """A batch of another version does no harm."""
    async with _listening("a", redis_server.url) as a, _listening("b", redis_server.url) as b:
        with redis_server.client() as client:
            client.xadd("{test}:events", {"b": b"\xc1 nonsense"})
        b.line.tell(Landed(replica="b", flight=1))
        await a.until(lambda: Landed(replica="b", flight=1) in a.heard)
        assert 1 == a.line.unread


async def test_a_store_that_was_never_there_stops_nobody() -> None:
    """It starts, puts, gets and closes without one."""
    listener = Listener("a", "redis://127.0.0.1:1")
    listener.line.start(listener)
    listener.line.put("k", "v", 60.0)
    listener.line.tell(Landed(replica="a", flight=1))
    assert "v" == (listener.line.get("k") or ("", 0))[0]
    await listener.line.close()
    await listener.line.close()
    assert listener.line.lost_for_s is not None
    assert 1 == listener.line.dropped
