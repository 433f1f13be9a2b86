"""The store of several replicas, on real servers."""

import pytest

from gateway.stores.redis import RedisStore
from gateway.stores.redis_address import read_redis_address
from gateway.stores.replica_store import StoredFact, StoreLost
from tests.redis_servers import RedisServer


def _store(url: str, *, prefix: str = "test", timeout_s: float = 2.0) -> RedisStore:
    return RedisStore(read_redis_address(url), prefix=prefix, timeout_s=timeout_s)


WRITTEN = ([b"one", b"two"], [("cool:a", b"resting")])


async def _talk(url: str) -> tuple[list[bytes], list[tuple[str, bytes]]]:
    """The batches and the facts that come back from a store after two writes."""
    store = _store(url)
    try:
        await store.write(b"one", [StoredFact(key="cool:a", value=b"resting", ends_in_ms=60_000)])
        now_ms = await store.write(b"two", [])
        entries = await store.news("0", wait_s=0.05)
        assert [] == await store.news(entries[-1].number, wait_s=0.05)
        assert abs(now_ms - entries[-1].came_ms) <= 1
        facts = await store.facts()
        assert all(0 < fact.ends_in_ms <= 60_000 for fact in facts)
        return [entry.payload for entry in entries], [(fact.key, fact.value) for fact in facts]
    finally:
        await store.close()


async def test_what_one_writes_the_others_read(redis_server: RedisServer) -> None:
    """A batch and a fact come back from a server that stands alone."""
    assert WRITTEN == await _talk(redis_server.url)


async def test_a_cluster_serves_as_well(redis_cluster: list[RedisServer]) -> None:
    """The same on three masters."""
    places = ",".join(f"127.0.0.1:{server.port}" for server in redis_cluster)
    assert WRITTEN == await _talk(f"redis+cluster://{places}")


async def test_a_fact_that_ended_is_forgotten(redis_server: RedisServer) -> None:
    """Putting a fact with no time left takes it away."""
    store = _store(redis_server.url)
    await store.write(b"", [StoredFact(key="k", value=b"v", ends_in_ms=60_000)])
    await store.write(b"", [StoredFact(key="k", value=b"", ends_in_ms=0)])
    assert [] == await store.facts()
    assert [] == await store.news("0", wait_s=0.01)
    await store.close()


async def test_two_gateways_on_one_server_do_not_meet(redis_server: RedisServer) -> None:
    """Keys of another prefix are not seen."""
    ours, theirs = _store(redis_server.url), _store(redis_server.url, prefix="other")
    await ours.write(b"one", [StoredFact(key="k", value=b"v", ends_in_ms=60_000)])
    assert ([], []) == (await theirs.news("0", wait_s=0.01), await theirs.facts())
    await ours.close()
    await theirs.close()


async def test_a_server_that_is_gone_is_lost_and_comes_back(redis_server: RedisServer) -> None:
    """Nothing but ``StoreLost`` comes out, and the same store works again with the server."""
    store = _store(redis_server.url)
    await store.write(b"one", [])
    redis_server.kill()
    with pytest.raises(StoreLost):
        await store.write(b"two", [])
    with pytest.raises(StoreLost):
        await store.news("0", wait_s=0.01)
    redis_server.start()
    await store.write(b"three", [])
    assert [b"three"] == [entry.payload for entry in await store.news("0", wait_s=0.05)]
    await store.close()
