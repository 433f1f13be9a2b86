"""What the replicas of a gateway keep together in Redis or Valkey: a stream of what happens, and facts with an end.

The one home of redis-py. All keys have the same hash tag, so a cluster holds them in one slot and a script may touch
them all. Each step is one script: atomic, and one round trip.
"""

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha1
from typing import Any

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from gateway.stores.redis_address import RedisAddress
from gateway.stores.replica_store import Entry, StoredFact, StoreLost

__all__ = ["RedisStore", "TlsFiles"]

STREAM_ENTRIES = 20_000
"""About so many batches stay in the stream: what a replica that joins can catch up on."""
FACTS = 65_536
"""So many facts stay; those that would end first go first."""

_PAGE = 1_000
_NEWS = 200
_MOVES = 3
"""A cluster's answer may be that a slot has moved, and the next one, too; more is trouble."""
_FIELD = b"b"

# KEYS: the stream, the facts' ends, then a key a fact. ARGV: the batch, the most entries, the most facts, then of each
# fact its name, its value and its milliseconds. Facts are kept before the batch tells of them.
_WRITE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 3, #KEYS do
  local name, value, left = ARGV[i * 3 - 5], ARGV[i * 3 - 4], tonumber(ARGV[i * 3 - 3])
  if left > 0 then
    redis.call('SET', KEYS[i], value, 'PX', left)
    redis.call('ZADD', KEYS[2], now + left, name)
  else
    redis.call('DEL', KEYS[i])
    redis.call('ZREM', KEYS[2], name)
  end
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - ARGV[3])
if ARGV[1] ~= '' then
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'b', ARGV[1])
end
return now
"""

# KEYS: the facts' ends. ARGV: the first rank, the last. Answers: the server's time, and of each fact its name and end.
_ENDS = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return {now, redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2], 'WITHSCORES')}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """What a TLS connection needs beyond the usual: files, or empty. ``ca`` has the certificates to trust."""

    ca: str = ""
    certificate: str = ""
    key: str = ""


class RedisStore:
    """The store of all replicas that have the same ``address`` and ``prefix``.

    Two connections: one that writes, with ``timeout_s`` for each step, and one that waits for news.

    Args:
        address: where it is.
        prefix: the first part of every key, so that several gateways can share a server.
        timeout_s: how long a step may take before the store counts as lost.
        tls: files for TLS, where the address asks for it.
    """

    def __init__(self, address: RedisAddress, *, prefix: str, timeout_s: float, tls: TlsFiles | None = None) -> None:
        self._prefix = prefix
        self._stream, self._ends, self._fact = self.key("events"), self.key("facts"), self.key("fact:")
        self._address = address
        self._timeout_s = timeout_s
        self._tls = _tls(tls or TlsFiles()) if address.tls else {}
        self._opened: list[Any] = []
        self._writer = self._client(timeout_s)
        self._readers: dict[float, Any] = {}

    async def write(self, payload: bytes, facts: Sequence[StoredFact]) -> int:
        """Keeps the facts and appends ``payload`` to the stream, where it is not empty; all of it or nothing.

        Returns:
            The server's milliseconds.

        Raises:
            StoreLost: it may or may not have been done.
        """
        keys = [self._stream, self._ends, *(self._fact + fact.key for fact in facts)]
        told: list[bytes | str | int] = [payload, STREAM_ENTRIES, FACTS]
        for fact in facts:
            told += (fact.key, fact.value, fact.ends_in_ms)
        return int(await self.run(_WRITE, keys, told))

    async def news(self, after: str, *, wait_s: float) -> list[Entry]:
        """What was appended after the entry ``after`` (``0`` is before all), waiting up to ``wait_s`` for the first.

        A few hundred entries at most, so that whoever takes them holds nobody up for long.

        Raises:
            StoreLost: nobody knows.
        """
        async with _answered():
            reader = self._readers.get(wait_s)
            if reader is None:
                reader = self._readers[wait_s] = self._client(wait_s + self._timeout_s)
            found = await reader.xread({self._stream: after}, count=_NEWS, block=max(int(wait_s * 1000), 1))
        return [Entry(number.decode(), fields.get(_FIELD, b"")) for number, fields in _entries(found)]

    async def facts(self) -> list[StoredFact]:
        """All facts that have not ended.

        Raises:
            StoreLost: nobody knows.
        """
        found: list[StoredFact] = []
        async with _answered():
            for first in range(0, FACTS, _PAGE):
                now_ms, flat = await self.run(_ENDS, [self._ends], [first, first + _PAGE - 1])
                names = [name.decode() for name in flat[::2]]
                if not names:
                    break
                values = await self._writer.mget([self._fact + name for name in names])
                found += [
                    StoredFact(key=name, value=value, ends_in_ms=left_ms)
                    for name, end, value in zip(names, flat[1::2], values, strict=True)
                    if value is not None and (left_ms := int(float(end)) - now_ms) > 0
                ]
        return found

    def key(self, name: str) -> str:
        """The key of that name: in the same slot as all others, and out of the way of other gateways."""
        return f"{{{self._prefix}}}:{name}"

    async def run(self, script: str, keys: Sequence[str], told: Sequence[bytes | str | int]) -> Any:
        """Runs a script, which the server reads once.

        Raises:
            StoreLost: it may or may not have run.
        """
        digest = sha1(script.encode(), usedforsecurity=False).hexdigest()
        async with _answered():
            try:
                return await self._writer.evalsha(digest, len(keys), *keys, *told)
            except NoScriptError:  # a server that was started anew, or has taken over
                return await self._writer.eval(script, len(keys), *keys, *told)

    async def close(self) -> None:
        """Gives all connections back; idempotent."""
        self._readers.clear()
        opened, self._opened = self._opened, []
        for client in opened:
            await client.aclose()

    def _client(self, timeout_s: float) -> Any:
        address = self._address
        common: dict[str, Any] = {
            "username": address.username,
            "password": address.password,
            "socket_timeout": timeout_s,
            "socket_connect_timeout": self._timeout_s,
            "retry": Retry(NoBackoff(), 0),  # one owner of retries: whoever uses the store
            **self._tls,
        }
        client: Any
        if address.way == "cluster":
            nodes = [ClusterNode(host, port) for host, port in address.hosts]
            client = RedisCluster(startup_nodes=nodes, **common | {"retry": Retry(NoBackoff(), _MOVES)})
        elif address.way == "sentinel":
            asking = {"socket_timeout": self._timeout_s, **self._tls}
            guards: Any = Sentinel(address.hosts, sentinel_kwargs=asking, **common)  # type: ignore[no-untyped-call]  # redis-py has no types there
            self._opened += guards.sentinels
            client = guards.master_for(address.master, db=address.database)
        elif address.path:
            client = Redis(unix_socket_path=address.path, db=address.database, **common)
        else:
            (host, port), *_ = address.hosts
            client = Redis(host=host, port=port, db=address.database, **common)
        self._opened.append(client)
        return client


@asynccontextmanager
async def _answered() -> AsyncIterator[None]:
    try:
        yield
    except (RedisError, OSError, TimeoutError) as error:
        raise StoreLost(type(error).__name__) from error


def _entries(found: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """The entries of the one stream that was read, in the shape of either version of the protocol."""
    if not found:
        return []
    streams = found.values() if isinstance(found, dict) else [entries for _, entries in found]
    flat: list[tuple[bytes, dict[bytes, bytes]]] = []
    for entries in streams:
        nested = bool(entries) and isinstance(entries[0], list)
        flat += entries[0] if nested else entries
    return flat


def _tls(files: TlsFiles) -> dict[str, Any]:
    named = {"ssl_ca_certs": files.ca, "ssl_certfile": files.certificate, "ssl_keyfile": files.key}
    return {"ssl": True, "ssl_cert_reqs": ssl.CERT_REQUIRED} | {name: file for name, file in named.items() if file}
