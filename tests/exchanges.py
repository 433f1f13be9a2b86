"""A whole gateway in memory: exchanges without sockets, and a pipeline over real backends, policies and ledger."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from gateway.attempt.afterwards import Afterwards, open_afterwards
from gateway.attempt.sink import AnswerBounds
from gateway.attempt.trial import Bench
from gateway.door import Door
from gateway.exchange import RawHeaders
from gateway.fleet.fleet import Fleet
from gateway.guarding.guardroom import Guardroom
from gateway.judgement import JudgedAnswer
from gateway.judging.inquiries import Inquiries
from gateway.ledger.ledger import EntryLedger
from gateway.limits.gate import Gate
from gateway.limits.held_bodies import HeldBodies
from gateway.pipeline import Pipeline, Rules
from gateway.ports import Backend, Clock, Surroundings
from gateway.rules.policy_file import parse_policy
from gateway.rules.world import World, build_world
from gateway.steering.steering import Steering
from gateway.stores.memory import MemoryShared
from gateway.stores.responses import ResponseMemory
from gateway.transport.client import open_connections
from gateway.types import LedgerEntry, Operation
from gateway.wire.format import BodyLimits

SECOND_S = 1.0


@dataclass(eq=False)
class MemoryExchange:
    """The ``Exchange`` seam without a socket: the client's side is played by the test.

    ``calls`` has the verbs in the order in which the gateway used them. While ``reading`` is not set, the client does
    not read: writes wait; it stops by itself at a piece that holds ``stops_at``. While ``sending`` is not set, its body
    is still on the way.
    """

    operation: Operation = Operation.CHAT
    headers: RawHeaders = ()
    request_body: bytes = b""
    stops_at: bytes | None = None
    gone: bool = False
    started: bool = False
    streaming: bool = False
    status: int = 0
    answer_headers: dict[str, str] = field(default_factory=dict)
    received: bytes = b""
    calls: list[str] = field(default_factory=list)
    reading: asyncio.Event = field(default_factory=asyncio.Event)
    sending: asyncio.Event = field(default_factory=asyncio.Event)
    wrote: asyncio.Event = field(default_factory=asyncio.Event)
    blocked: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[Any] | None" = None

    def __post_init__(self) -> None:
        self.reading.set()
        self.sending.set()

    async def body(self) -> bytes:
        """See ``Exchange``."""
        self.calls.append("body")
        self.task = asyncio.current_task()
        await self.sending.wait()
        return self.request_body

    async def answer(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """See ``Exchange``."""
        assert not self.started, "an answer was begun before"
        self._begin("answer", status, headers)
        await self._take(body)

    async def open(self, status: int, headers: RawHeaders) -> None:
        """See ``Exchange``."""
        assert not self.started, "an answer was begun before"
        self._begin("open", status, headers)
        self.streaming = True

    async def write(self, data: bytes) -> None:
        """See ``Exchange``."""
        assert self.streaming, "no stream is open"
        assert data, "an empty piece says nothing"
        self.calls.append("write")
        await self._take(data)

    async def close(self) -> None:
        """See ``Exchange``."""
        assert self.streaming, "no stream is open"
        self.calls.append("close")
        self.streaming = False

    def hang_up(self) -> None:
        """The client leaves: as the seam says, the serving task is cancelled."""
        assert self.task is not None, "nobody serves it yet"
        self.gone = True
        self.task.cancel()

    @property
    def json(self) -> Any:
        """A whole answer, parsed."""
        return msgspec.json.decode(self.received)

    @property
    def events(self) -> list[Any]:
        """The events of a streamed answer, parsed; the end mark as its text."""
        blocks = self.received.split(b"\n\n")
        assert b"" == blocks.pop(), "the stream ends in the middle of an event"
        assert all(block.startswith(b"data: ") for block in blocks)
        return ["[DONE]" if block == b"data: [DONE]" else msgspec.json.decode(block[6:]) for block in blocks]

    @property
    def text(self) -> str:
        """What a streamed chat says."""
        choices = [choice for event in self.events if isinstance(event, dict) for choice in event.get("choices", ())]
        return "".join(choice["delta"].get("content") or "" for choice in choices)

    def _begin(self, verb: str, status: int, headers: RawHeaders) -> None:
        self.calls.append(verb)
        self.started, self.status = True, status
        self.answer_headers = {name.decode("ascii"): value.decode("ascii") for name, value in headers}

    async def _take(self, data: bytes) -> None:
        if self.stops_at is not None and self.stops_at in data:
            self.reading.clear()
        if not self.reading.is_set():
            self.blocked.set()
        await self.reading.wait()
        self.received += data
        self.wrote.set()


@dataclass
class Keeper:
    """An observer that keeps the entries, words and all."""

    entries: list[LedgerEntry] = field(default_factory=list)

    def observe(self, entry: LedgerEntry) -> None:
        """Keeps it."""
        self.entries.append(entry)


@dataclass
class JudgedKeeper:
    """A sink that keeps what was judged."""

    judged: list[JudgedAnswer] = field(default_factory=list)

    def take_judged(self, judged: JudgedAnswer) -> None:
        """Keeps it."""
        self.judged.append(judged)


@dataclass
class House:
    """A pipeline with everything around it."""

    pipeline: Pipeline
    world: World
    fleet: Fleet
    keeper: Keeper
    afterwards: Afterwards
    judged_keeper: JudgedKeeper

    @property
    def judged(self) -> list[JudgedAnswer]:
        """What was judged, in that order."""
        return self.judged_keeper.judged

    async def judging_is_over(self) -> None:
        """Returns when all copies have ended and nothing waits for judges."""
        await asyncio.wait_for(self.afterwards.shadows.settled(), 10 * SECOND_S)
        await asyncio.wait_for(self.afterwards.docket.idle(), 10 * SECOND_S)

    @property
    def entries(self) -> list[LedgerEntry]:
        """The ledger, in the order in which requests ended."""
        return self.keeper.entries

    @property
    def entry(self) -> LedgerEntry:
        """The only entry."""
        (entry,) = self.keeper.entries
        return entry

    @property
    def route(self) -> Any:
        """The only route, or the first."""
        return self.world.routes[0]

    def backend(self, name: str) -> Any:
        """A backend of the policy file."""
        return self.world.backends[name]

    async def serve(self, exchange: MemoryExchange) -> MemoryExchange:
        """Serves an exchange to its end, in a task of its own."""
        await asyncio.wait_for(self.begin(exchange), 10 * SECOND_S)
        return exchange

    def begin(self, exchange: MemoryExchange) -> "asyncio.Task[None]":
        """Serves an exchange in the background."""
        return asyncio.create_task(self.pipeline.handle(exchange))

    async def until(self, condition: Callable[[], object]) -> None:
        """Returns when the condition holds; gives up after more turns of the event loop than anything here takes."""
        for _ in range(10_000):
            if condition():
                return
            await asyncio.sleep(0)
        raise AssertionError("this never came true")

    def is_quiet(self) -> bool:
        """Whether nothing is under way and every counter is back where it began."""
        works = [standing.work for standing in self.fleet._standings.values()]
        counters = [
            *self.fleet.in_flight.values(),
            *(n for w in works for n in (w.in_flight, w.queued_prefill_tokens, w.running_output_tokens, w.writing)),
            *(getattr(admitter, "in_flight", 0) for admitter in self.world.admitters().values()),
        ]
        return self.pipeline.running == 0 and not any(counters)


def _exchange(
    *,
    operation: Operation = Operation.CHAT,
    headers: Sequence[tuple[bytes, bytes]] = (),
    body: bytes | None = None,
    model: str = "small",
    **fields: Any,
) -> MemoryExchange:
    if body is None:
        prompt: dict[str, Any] = {"messages": [{"role": "user", "content": "Say a few words."}]}
        if operation is Operation.COMPLETION:
            prompt = {"prompt": "Once upon a time"}
        body = msgspec.json.encode({"model": model, **prompt, **fields})
    return MemoryExchange(operation=operation, headers=tuple(headers), request_body=body)


@pytest.fixture(scope="session")
def make_exchange() -> Callable[..., MemoryExchange]:
    """An exchange of a client that asks for a few words; fields are those of its body."""
    return _exchange


@pytest.fixture(scope="session")
def make_world() -> Callable[..., World]:
    """A world from the text of a policy file, with nothing started."""
    return lambda text, **others: build_world(parse_policy(text, file="policy.yaml"), file="policy.yaml", **others)


@pytest.fixture
def open_house(surroundings: Callable[..., Surroundings], make_world: Callable[..., World]) -> Callable[..., Any]:
    """Opens a pipeline over the text of a policy file, its backends started, on a clock that the test turns."""

    @asynccontextmanager
    async def open_(
        text: str,
        *,
        clock: Clock,
        replaced: dict[str, Backend] | None = None,
        max_answer_bytes: int = 1 << 20,
        gate: Gate | None = None,
        steering: Steering | None = None,
    ) -> AsyncIterator[House]:
        world = make_world(text)
        if steering is not None:
            steering.follow(world.routes)
        world.backends.update(replaced or {})  # type: ignore[attr-defined]  # a dict, whatever its type says
        facts = MemoryShared(clock)
        fleet = Fleet(clock=clock, shared=facts)
        keeper = Keeper()
        bounds = AnswerBounds(max_event_bytes=1 << 20, max_answer_bytes=max_answer_bytes)
        secret = {"JUDGE_KEY": "judge-secret", "GUARD_KEY": "guard-secret"}.get
        guardroom = Guardroom(Inquiries(open_connections, secret))
        bench = Bench(fleet=fleet, clock=clock, bounds=bounds, gate=gate, steering=steering, guardroom=guardroom)
        judged = JudgedKeeper()
        afterwards = open_afterwards(bench, connect=open_connections, secret=secret, sinks=[judged])
        pipeline = Pipeline(
            Rules(world, Door(world.tenancy.keys, max_header_bytes=65_536, clock=clock)),
            bench=bench,
            afterwards=afterwards,
            ledger=EntryLedger([keeper, *world.observers()], []),
            limits=BodyLimits(),
            memory=ResponseMemory(facts, kept_s=60.0),
            bodies=HeldBodies(most_bytes=1 << 20, longest_bytes=1 << 19),
        )
        for name, backend in world.backends.items():
            await backend.start(name, surroundings(clock=clock))
        yield House(pipeline, world, fleet, keeper, afterwards, judged)
        await asyncio.wait_for(pipeline.drain(0), 10 * SECOND_S)
        await asyncio.wait_for(afterwards.close(), 10 * SECOND_S)
        await asyncio.wait_for(guardroom.close(), 10 * SECOND_S)
        for backend in world.backends.values():
            await backend.close()

    return open_


@pytest.fixture(scope="session")
def two_backends() -> Callable[..., str]:
    """A policy file with two backends, the first always the cheaper, and one route over both."""

    def policy(first: str = "", second: str = "", route: str = "", more: str = "") -> str:
        price = "models: {small: {price: {input_usd_per_mtok: %d, output_usd_per_mtok: %d, request_usd: %d}}}"
        return f"""
            backends:
              first: {{use: fake, text: one two three, {price % (1, 1, 1)}, {first}}}
              second: {{use: fake, text: four five six, {price % (2, 2, 2)}, {second}}}
            routes:
              main: {{models: [small, fast], targets: [first/small, second/small], cost: [money], {route}}}
            {more}
        """

    return policy


@pytest.fixture(scope="session")
def failing() -> Callable[..., str]:
    """The parameters of a fake backend that fails in these ways, one call after the other, again and again."""

    def parameters(*kinds: str, **fields: Any) -> str:
        faults = [{"kind": kind, **fields} for kind in kinds]
        return f"fail: {msgspec.json.encode(faults).decode()}, repeat: true"

    return parameters
