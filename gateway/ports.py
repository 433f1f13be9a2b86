"""The doors between the kernel and everything that can be chosen: one Protocol, one verb.

Policies (``Classifier``, ``Filter``, ``Scorer``, ``Ranker``, and ``Admitter`` in ``gateway.admission``) are pure:
snapshots in, values out, the same inputs give the same answer. A ``Backend`` pushes what arrives into a ``Sink``; what
it may use of the world stands in ``gateway.surroundings``. A plugin that also has ``observe`` learns from every
finished request.
"""

from collections.abc import Awaitable, Iterator, Sequence
from typing import ClassVar, Protocol, runtime_checkable

from gateway.errors import ClientError
from gateway.facts import BackendFacts
from gateway.forecast import Forecast
from gateway.surroundings import AT_ONCE as AT_ONCE
from gateway.surroundings import Clock as Clock
from gateway.surroundings import Connections as Connections
from gateway.surroundings import Origin as Origin
from gateway.surroundings import Shared as Shared
from gateway.surroundings import Surroundings as Surroundings
from gateway.surroundings import UpstreamAnswer as UpstreamAnswer
from gateway.types import Bill, Call, Candidate, ChatRequest, Context, Finish, LedgerEntry

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
    """A filter that lets requests pass which lose something on the way: known by its method, whatever its class."""

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

    def share(self, shared: Shared) -> None:
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

    def push(self, data: bytes) -> Awaitable[None]:
        """Takes a piece of the answer as it came; to be awaited until the client can take more: this is back-pressure.

        ``AT_ONCE`` where it can already.

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


@runtime_checkable
class PassingSink(Sink, Protocol):
    """The ``Sink`` of a call whose request has ``units``: its answer goes on as it comes, whatever it is."""

    def pass_on(self, headers: Sequence[tuple[str, str]]) -> None:
        """In the place of ``begin``: the upstream answers, and these of its own headers go on. Names in lower case.

        By ``content-type`` it is taken for JSON, events, text or bytes.

        Raises:
            UpstreamInvalid: it is a page for people, as proxies have for what they cannot reach.
        """
        ...


class Backend(Protocol):
    """A provider, replica or engine. A dataclass whose fields are its YAML parameters, plus these verbs."""

    async def start(self, name: str, world: Surroundings) -> None:
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


# ---- what is kept ----------------------------------------------------------------------------------------------------


class Ledger(Protocol):
    """Takes the record of each request."""

    def record(self, entry: LedgerEntry) -> None:
        """Takes the entry and returns at once; what is made of it happens off the request path."""
        ...
