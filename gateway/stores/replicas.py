"""The replicas of one gateway tell each other what happens, through the store that they share.

Off the request path: what a request says goes into an outbox, one task takes it to the store every few milliseconds, in
one batch, and another waits for what the others wrote. Each replica makes its own picture of it; nobody asks anybody.

While the store is lost, every replica goes on with what it knows and what it sees itself. What it would have told of
its attempts meanwhile is dropped, for it would be stale; when the store is back, it says anew how things stand.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

import msgspec
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from gateway.fleet.events import HEARTBEAT_S, Alive, Dispatched, FirstToken, FleetEvent, Left
from gateway.ports import Clock
from gateway.seldom import Seldom
from gateway.stores.memory import MemoryShared
from gateway.stores.replica_store import ReplicaStore, StoredFact, StoreLost

__all__ = ["Picture", "Replicas"]

SHARE_S = 0.02
"""How long events gather before they go out: the others know within twice that, and the network's time."""
OUTBOX_EVENTS = 20_000
"""What waits for the store is bounded: beyond it the oldest are dropped, and counted."""

_TELLING = "telling the other replicas"
_HEARING = "hearing the other replicas"
_WAIT_S = 1.0
_LONGEST_PAUSE_S = 2.0
_GIVE_UP_S = 1.0
_AGAIN_S = 0.05

_log = logging.getLogger(__name__)


class Picture(Protocol):
    """What is made of it all here: ``gateway.fleet.fleet.Fleet``."""

    def hear(self, event: FleetEvent) -> None:
        """Takes what another replica tells of its attempts."""
        ...

    def under_way(self) -> Iterable[FleetEvent]:
        """The attempts in flight here, to be told whenever the store is there (again)."""
        ...


class Fact(msgspec.Struct, frozen=True, array_like=True, tag="k"):
    """The ``Shared`` port's ``put``."""

    replica: str
    key: str
    value: str
    ttl_s: float


_ENCODER = msgspec.msgpack.Encoder()
_BATCH = msgspec.msgpack.Decoder(list[msgspec.Raw])
_EVENT = msgspec.msgpack.Decoder(FleetEvent | Fact)


class Replicas:
    """This replica among the others. Also the ``Shared`` port: what is put here is known there, reading never waits.

    Args:
        name: this replica's; no other's.
        store: what they share.
        clock: the time.
    """

    def __init__(self, name: str, store: ReplicaStore, *, clock: Clock) -> None:
        self._name = name
        self._store = store
        self._clock = clock
        self._picture: Picture | None = None
        self._known = MemoryShared(clock)
        self._outbox: deque[FleetEvent] = deque()
        self._facts: dict[str, tuple[str, float]] = {}
        self._filled = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._after = "0"
        self._lost_since_s = {_TELLING: clock.now_s(), _HEARING: clock.now_s()}
        self._complain = Seldom(_log)
        self.dropped = 0
        self.unread = 0

    @property
    def lost_for_s(self) -> float | None:
        """How long the store has been away, or ``None`` while it is there."""
        since_s = min(self._lost_since_s.values(), default=None)
        return None if since_s is None else self._clock.now_s() - since_s

    # ---- what the request path calls: quick, nothing waits

    def tell(self, event: FleetEvent) -> None:
        """The others will know soon; dropped, and counted, while the store is lost."""
        if _TELLING in self._lost_since_s:
            self.dropped += 1
            return
        if len(self._outbox) >= OUTBOX_EVENTS:
            self._outbox.popleft()
            self.dropped += 1
        self._outbox.append(event)
        self._filled.set()

    def put(self, key: str, value: str, ttl_s: float) -> None:
        """See ``Shared``. While the store is lost, the last word on each key waits for it."""
        self._known.put(key, value, ttl_s)
        self._facts.pop(key, None)
        self._facts[key] = (value, self._clock.now_s() + ttl_s)
        if len(self._facts) > OUTBOX_EVENTS:
            del self._facts[next(iter(self._facts))]
            self.dropped += 1
        self._filled.set()

    def get(self, key: str) -> tuple[str, float] | None:
        """See ``Shared``."""
        return self._known.get(key)

    def values_under(self, prefix: str) -> Sequence[str]:
        """See ``Shared``."""
        return self._known.values_under(prefix)

    # ---- life

    def start(self, picture: Picture) -> None:
        """Looks for the store; returns at once. What others tell goes into ``picture``, on the event loop."""
        self._picture = picture
        self._tasks = [
            asyncio.create_task(self._keep_on(self._listen, _HEARING), name="headrace-replicas-hear"),
            asyncio.create_task(self._keep_on(self._write_on, _TELLING), name="headrace-replicas-tell"),
        ]

    async def close(self) -> None:
        """Tells the others that it leaves, where it can; idempotent."""
        tasks, self._tasks = self._tasks, []
        await _cancel(tasks)
        if tasks and _TELLING not in self._lost_since_s:
            self._outbox.append(Left(self._name))
            try:
                await asyncio.wait_for(self._write(), _GIVE_UP_S)
            except (StoreLost, TimeoutError):
                _log.info("the other replicas were not told that this one leaves")
        await self._store.close()

    async def _keep_on(self, work: Callable[[], Awaitable[None]], what: str) -> None:
        """Does ``work`` for ever, anew whenever the store was lost."""

        def note_loss(state: RetryCallState) -> None:
            self._lost_since_s.setdefault(what, self._clock.now_s())
            error = state.outcome.exception() if state.outcome else None
            self._complain("%s is not possible: the shared store is lost (%s)", what, error)

        pauses = AsyncRetrying(
            retry=retry_if_exception_type(StoreLost),
            wait=wait_random_exponential(multiplier=0.05, max=_LONGEST_PAUSE_S),
            sleep=self._clock.sleep,
            before_sleep=note_loss,
        )
        while True:
            await pauses(work)

    def _found(self, what: str) -> None:
        if self._lost_since_s.pop(what, None) is not None:
            _log.info("%s is possible: the shared store is there", what)

    # ---- telling

    async def _write_on(self) -> None:
        """Says how things stand, then what comes, until the store is lost."""
        self.dropped += len(self._outbox)
        self._outbox = deque(self._picture.under_way() if self._picture else ())
        await self._write()
        self._found(_TELLING)
        while True:
            await self._something_to_say()
            await self._write()

    async def _something_to_say(self) -> None:
        try:
            async with asyncio.timeout(HEARTBEAT_S / 2):
                await self._filled.wait()
            await self._clock.sleep(SHARE_S)  # what comes in the meantime goes along
        except TimeoutError:
            self._outbox.append(Alive(self._name))

    async def _write(self) -> None:
        self._filled.clear()
        now_s = self._clock.now_s()
        told: list[FleetEvent | Fact] = list(self._outbox)
        facts = dict(self._facts)
        self._outbox.clear()
        left = {key: (value, ends_s - now_s) for key, (value, ends_s) in facts.items()}
        told += [Fact(self._name, key, value, left_s) for key, (value, left_s) in left.items()]
        kept = [StoredFact(key=k, value=v.encode(), ends_in_ms=int(left_s * 1000)) for k, (v, left_s) in left.items()]
        try:
            await self._store.write(_ENCODER.encode(told), kept)
        except StoreLost:
            self.dropped += len(told) - len(kept)
            raise
        for key, fact in facts.items():
            if self._facts.get(key) is fact:  # else a newer one has been put meanwhile
                del self._facts[key]

    # ---- hearing

    async def _listen(self) -> None:
        """Catches up, then hears what comes until the store is lost."""
        now_ms = await self._store.write(b"", [])
        if now_ms < int(self._after.partition("-")[0]):  # another server, whose clock is behind: it numbers by that
            self._after = "0"
        for fact in await self._store.facts():
            if fact.key not in self._facts:
                self._known.put(fact.key, fact.value.decode("utf-8", "replace"), fact.ends_in_ms / 1000)
        while True:
            entries = await self._store.news(self._after, wait_s=_WAIT_S)
            self._found(_HEARING)
            for entry in entries:
                self._after = entry.number
                self._take(entry.payload, age_s=max(now_ms - entry.came_ms, 0) / 1000)

    def _take(self, payload: bytes, *, age_s: float) -> None:
        try:
            events = [_EVENT.decode(raw) for raw in _BATCH.decode(payload)]
        except msgspec.MsgspecError as error:  # a replica of another version
            self.unread += 1
            self._complain("what another replica wrote could not be read: %s", error)
            return
        for event in events:
            if event.replica == self._name or self._picture is None:
                continue
            if isinstance(event, Fact):
                self._known.put(event.key, event.value, event.ttl_s - age_s)
            elif isinstance(event, Dispatched | FirstToken) and age_s:
                self._picture.hear(msgspec.structs.replace(event, age_s=event.age_s + age_s))
            else:
                self._picture.hear(event)


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Until all have ended: redis-py swallows a cancellation that meets it while it connects."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_AGAIN_S)
