"""The doors between the kernel and everything that can be chosen: one Protocol, one verb.

Policies (``Classifier``, ``Filter``, ``Scorer``, ``Ranker``, and ``Admitter`` in ``gateway.admission``) are pure:
snapshots in, values out, the same inputs give the same answer. A ``Backend`` pushes what arrives into a ``Sink``. A plugin
that also has ``observe`` learns from every finished request.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from gateway.errors import ClientError
from gateway.facts import BackendFacts
from gateway.forecast import Forecast
from gateway.types import (
    Bill,
    Call,
    Candidate,
    ChatRequest,
    Context,
    Finish,
    LedgerEntry,
)

# ---- policies -------------------------------------------------------------------------------------------------------


class Classifier(Protocol):
    """Forecasts a request."""

    def forecast(self, request: ChatRequest) -> Forecast:
        """What the request will weigh. Never raises for a well-formed request."""
        ...


class Filter(Protocol):
    """Takes candidates out.

    ``refusal`` is what the client is told when exclusions by this filter leave nobody: a ``ClientError`` where the
    request is at fault, ``None`` where waiting may help.
    """

    refusal: ClassVar[type[ClientError] | None]

    def exclude(self, ctx: Context, candidate: Candidate) -> str | None:
        """The reason why the candidate is out, with the numbers ("needs 8401 tokens of 8192"), or ``None``."""
        ...


@runtime_checkable
class Dropper(Protocol):
    """A filter that lets requests pass which lose something on the way."""

    def drops(self, ctx: Context, candidate: Candidate) -> tuple[str, ...]:
        """The fields, by the client's names, that a candidate which is not excluded does not get."""
        ...


class Scorer(Protocol):
    """One term of the bill."""

    def usd(self, ctx: Context, candidate: Candidate) -> float:
        """Expected US dollars of this term, for this request on this candidate."""
        ...


@runtime_checkable
class BatchScorer(Protocol):
    """A term that also bills all candidates in one go: the same figures, for a fraction of the time."""

    def usd_each(self, ctx: Context, candidates: Sequence[Candidate]) -> list[float]:
        """What ``usd`` answers for each of the candidates, in their order."""
        ...


class Ranker(Protocol):
    """Orders the candidates."""

    def order(self, ctx: Context, bills: tuple[Bill, ...]) -> tuple[Bill, ...]:
        """The bills in the order in which they should be tried."""
        ...


@runtime_checkable
class Observer(Protocol):
    """Anything that learns from finished requests: a classifier, an admitter, a sink of the ledger."""

    def observe(self, entry: LedgerEntry) -> None:
        """Takes one finished request into account. Called once each, on the event loop: quick, no I/O, no raise."""
        ...


@runtime_checkable
class Learner(Protocol):
    """A policy whose learning outlives the process, and is shared with the other replicas of the gateway."""

    def share(self, shared: "Shared") -> None:
        """Where replicas leave what they know, and find what others do. Called once, before the first request."""
        ...

    def learned(self) -> Iterator[tuple[str, bytes]]:
        """What was learned, as named records to keep in files, each made when it is asked for; no prompt in them."""
        ...

    def resume(self, record: bytes) -> None:
        """Takes back one record of ``learned``.

        Raises:
            ValueError: it is none, or one of another release.
        """
        ...


# ---- backends -------------------------------------------------------------------------------------------------------


class Sink(Protocol):
    """Where a backend pushes an answer: the client's side of one attempt.

    Call ``begin`` once when the upstream has accepted the request, ``push`` for every piece of its answer in the wire
    format of ``call.request.arrival.operation``, ``end`` when the upstream has nothing more to say.
    """

    def begin(self, *, streamed: bool) -> None:
        """The upstream answers: as server-sent events if ``streamed``, else as one JSON body in pieces of any size."""
        ...

    async def push(self, data: bytes) -> None:
        """Takes a piece of the answer as it came, and returns when the client can take more: this is back-pressure.

        Raises:
            UpstreamError: the piece is an error, or no answer at all.
            ClientGone: nobody is listening.
        """
        ...

    async def end(self) -> Finish:
        """The upstream is done; what it said is judged and the rest goes out.

        Raises:
            UpstreamTruncated: it stopped before the end of its answer.
            UpstreamInvalid: what it said is no answer.
        """
        ...


class Backend(Protocol):
    """A provider, replica or engine. A dataclass whose fields are its YAML parameters, plus these verbs."""

    async def start(self, name: str, world: "Surroundings") -> None:
        """Opens what it needs. ``name`` is its name in the policy file. Returns at once: readiness is ``facts``."""
        ...

    async def send(self, call: Call, sink: Sink) -> Finish:
        """Serves the call, pushing into the sink; returns the sink's ``end()``.

        Cancelling closes the upstream at once: no connection and no slot outlives the call.

        Raises:
            UpstreamError: mapped once from whatever went wrong, ``backend`` filled in.
        """
        ...

    def facts(self) -> BackendFacts:
        """The present facts, without waiting."""
        ...

    async def close(self) -> None:
        """Gives back everything; idempotent."""
        ...


# ---- the outside world ----------------------------------------------------------------------------------------------


class Clock(Protocol):
    """Time, so that tests need not wait for it."""

    def now_s(self) -> float:
        """Monotonic seconds."""
        ...

    def unix_s(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Returns after ``seconds``."""
        ...


class Shared(Protocol):
    """Small facts that the replicas of a gateway share: cool-downs, affinity.

    Reading is local and never waits; a store over a network keeps a local view and syncs behind it.
    """

    def put(self, key: str, value: str, ttl_s: float) -> None:
        """Remembers ``value`` for ``ttl_s`` seconds, zero to forget it; bounded in number: the oldest go first."""
        ...

    def get(self, key: str) -> tuple[str, float] | None:
        """The value and the seconds it has left, or ``None``."""
        ...

    def values_under(self, prefix: str) -> Sequence[str]:
        """The values of all keys that begin so. Walks over all that is known: not for the path of a request."""
        ...


class Ledger(Protocol):
    """Takes the record of each request."""

    def record(self, entry: LedgerEntry) -> None:
        """Takes the entry and returns at once; what is made of it happens off the request path."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """An upstream to connect to, and how. ``base_url`` has no path at its end that a request adds, no user, no query.

    ``headers`` go with every request: credentials, and what the operator adds. ``verify`` is a file of CA certificates,
    true for the usual ones, false for none at all; ``client_certificate`` and ``client_key`` are files, or empty.
    """

    base_url: str
    headers: Mapping[str, str] = field(repr=False)
    connect_timeout_s: float
    keep_alive_s: float
    max_connections: int
    verify: bool | str = True
    client_certificate: str = ""
    client_key: str = ""


class UpstreamAnswer(Protocol):
    """The head of an upstream's answer, and its body piece by piece. Header names are in lower case."""

    status: int
    headers: Sequence[tuple[str, str]]

    async def piece(self) -> bytes:
        """The next piece of the body as it came, without its framing; empty at its end. Meanwhile the upstream waits.

        Raises:
            UpstreamUnreachable: the connection broke, or what came is no HTTP.
        """
        ...


class Connections(Protocol):
    """Kept connections to one origin, over which nothing goes but what we put there."""

    def post(
        self, path: str, body: bytes, *, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[UpstreamAnswer]:
        """Sends ``body`` and gives the answer's head; leaving the block, in whatever way, gives the connection back.

        A connection whose answer was not read to its end is closed, at once. What ``headers`` name goes instead of the
        origin's header of the same name; without a ``content-type``, the body is announced as JSON.

        Raises:
            UpstreamUnreachable: no connection, or it broke before an answer.
            ConnectionsBusy: none was free in time.
            UpstreamTimeout: connecting took too long.
            UpstreamInvalid: what came instead of a head is no HTTP, or too long.
            ValueError: the path or a header is none.
        """
        ...

    async def close(self) -> None:
        """Closes all connections; idempotent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a backend may use of the world: the clock, secrets by their name, connections, and where models lie.

    ``secret`` answers the value of an environment variable that the policy file names, or ``None``; ``connect`` opens
    the gateway's own connections; ``behind_proxy`` tells whether the environment has a proxy for an address;
    ``run_dir`` is a private directory where the workers of a gateway meet, ``None`` where there is but one;
    ``count_drafts`` takes a backend's name, a source, and how many tokens it drafted and how many of them were right.
    """

    clock: Clock
    secret: Callable[[str], str | None]
    connect: Callable[[Origin], Connections]
    behind_proxy: Callable[[str], bool]
    model_dir: Path
    run_dir: Path | None = None
    count_drafts: Callable[[str, str, int, int], None] = lambda *_: None
