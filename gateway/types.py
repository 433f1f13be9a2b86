"""The vocabulary, in the order it flows.

``Arrival -> ChatRequest -> Forecast -> Context -> Candidate* -> Decision -> Call -> Attempt* -> LedgerEntry``

Every value is frozen and keyword-only, built from the ones before it and never changed. msgspec's structs are made in a
tenth of a dataclass' time; none is part of a circle, so the collector skips them.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import StrEnum
from time import monotonic
from typing import Self

from msgspec import Struct

from gateway.arrival import Arrival as Arrival
from gateway.arrival import ChatRequest as ChatRequest
from gateway.arrival import Form as Form
from gateway.arrival import TraceContext as TraceContext
from gateway.card import Card
from gateway.forecast import Forecast
from gateway.guard_mark import GuardMark
from gateway.operation import EMBEDDINGS as EMBEDDINGS
from gateway.operation import OLLAMA as OLLAMA
from gateway.operation import Operation as Operation
from gateway.price import CostDoubt, Price, Usage
from gateway.success import Success
from gateway.worth import Deadline, Worth


class Status(StrEnum):
    """How a request or an attempt ended. A metric label, so it stays small; the exception has the words for people."""

    OK = "ok"
    REJECTED = "rejected"
    NO_CANDIDATE = "no_candidate"
    UPSTREAM_FAILED = "upstream_failed"
    TRUNCATED = "truncated"
    CLIENT_GONE = "client_gone"
    BUG = "bug"


# ---- what a policy sees ---------------------------------------------------------------------------------------------


class Context(Struct, frozen=True, kw_only=True, gc=False):
    """All that a policy may look at, besides the candidate. ``priced_only``: a limit wants one whose price is known."""

    request: ChatRequest
    forecast: Forecast
    worth: Worth
    deadline: Deadline | None = None
    priced_only: bool = False


class Candidate(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A snapshot of one backend serving one model, taken for one request.

    ``model`` is the name that the backend knows. Of its ``operations``, ``translates`` are those that reach it in the
    shape of OpenAI's chat. ``capabilities`` and ``carries`` (the request fields it understands) are ``None`` where
    nobody declared any: it is then taken to be able, but for fields that it ``refuses``. ``waiting`` requests, with
    ``queued_prefill_tokens`` to read, have no first answer token yet. ``warm_tokens`` is how much of this prompt its
    cache is expected to hold, ``warm_elsewhere_tokens`` what the warmest of the other candidates does.
    ``prefill_tokens_per_s`` is how fast it would read the rest, ``seconds_per_token`` how fast it would write, beside
    what is under way there now. ``wait_s`` is how long before it could begin with this prompt; ``first_token_p50_s``
    and ``first_token_p90_s`` say when the first token would be here, from the arrival. ``held_tokens`` are all prompts
    there. ``failure_rate`` is recent, 0 to 1; ``too_long_tokens``, as the forecast counts, did not fit its window.
    ``down`` says why nothing should go there, ``retry_in_s`` for how long. ``success`` is what verdicts say of it, on
    routes that steer by them. One that ``goes_first`` is tried before all others, whatever it costs: a canary, for the
    tasks that are its share. ``card`` is its provider's, without the evidence; ``None`` where nobody says anything.
    """

    backend: str
    model: str
    operations: frozenset[Operation]
    capabilities: frozenset[str] | None
    carries: frozenset[str] | None
    context_tokens: int | None
    price: Price | None
    in_flight: int
    concurrency: int | None
    queued_prefill_tokens: int
    running_output_tokens: int
    warm_tokens: int
    prefill_tokens_per_s: float
    seconds_per_token: float
    failure_rate: float
    wait_s: float = 0.0
    warm_elsewhere_tokens: int = 0
    held_tokens: int = 0
    waiting: int = 0
    first_token_p50_s: float = 0.0
    first_token_p90_s: float = 0.0
    too_long_tokens: int | None = None
    down: str | None = None
    retry_in_s: float | None = None
    success: Success | None = None
    goes_first: bool = False
    translates: frozenset[Operation] = frozenset()
    card: Card | None = None
    refuses: frozenset[str] = frozenset()


# ---- what we decide -------------------------------------------------------------------------------------------------


class Bill(Struct, frozen=True, kw_only=True, gc=False):
    """What serving the request on a candidate is expected to cost, one line per term, in US dollars."""

    candidate: Candidate
    terms: tuple[tuple[str, float], ...]
    total_usd: float


class Objection(str):
    """A filter's reason that blames one field of the request: ``param``, which the client is told."""

    __slots__ = ("param",)

    param: str | None

    def __new__(cls, reason: str, *, param: str | None) -> Self:
        """The reason in words, and the field at fault."""
        objection = super().__new__(cls, reason)
        objection.param = param
        return objection


class Exclusion(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Why a candidate is out: the filter's name, its reason in words, and the request's field where one is at fault."""

    candidate: Candidate
    filter: str
    reason: str
    param: str | None = None


class Decision(Struct, frozen=True, kw_only=True, gc=False):
    """Where the request of ``ctx`` goes: the bills in the order in which they are tried, and who is out and why."""

    order: tuple[Bill, ...]
    excluded: tuple[Exclusion, ...] = ()
    ctx: Context | None = None


class Call(Struct, frozen=True, kw_only=True):
    """What a backend is asked to do: this request, on this model, traced under this span.

    ``expected_prompt_tokens`` and ``expected_output_tokens`` (of one answer) are forecasts, ``time_left_s`` is its
    deadline; ``None`` where nobody says. ``dropped`` are fields, by the client's names, that it may leave out.
    ``now_s`` is the gateway's monotonic clock, for answers that tell how long they took.
    """

    request: ChatRequest
    model: str
    trace: TraceContext
    expected_output_tokens: int | None = None
    expected_prompt_tokens: int | None = None
    dropped: tuple[str, ...] = ()
    time_left_s: float | None = None
    now_s: Callable[[], float] = monotonic


# ---- what happened --------------------------------------------------------------------------------------------------


class Finish(Struct, frozen=True, kw_only=True, gc=False):
    """The terminal state of an answer that came to its end. ``usage`` is ``None`` where the upstream kept it back."""

    reason: str
    usage: Usage | None
    model: str = ""


class Attempt(Struct, frozen=True, kw_only=True, gc=False):
    """One try on one backend, the abandoned ones too. Times are on the monotonic clock.

    ``cost_usd`` is ``None`` where no price is known, which is not free; for ``cost_source`` and ``cost_doubts`` see
    ``gateway.price``. ``answered_model`` is what the upstream calls itself where not ``model``. ``error`` is a class,
    ``detail`` its words, which may quote an upstream and so never become a label. A stream came in ``bursts``.
    ``foreseen_usd`` is what limits count where its price is known, but nobody said how much it took.
    """

    backend: str
    model: str
    status: Status
    started_s: float
    ended_s: float
    span_id: str
    first_token_s: float | None = None
    usage: Usage | None = None
    cost_usd: Decimal | None = None
    cost_source: str = ""
    cost_doubts: tuple[CostDoubt, ...] = ()
    answered_model: str = ""
    error: str = ""
    detail: str = ""
    upstream_status: int | None = None
    last_token_s: float | None = None
    bursts: int = 0
    foreseen_usd: Decimal | None = None


class Outcome(Struct, frozen=True, kw_only=True, gc=False):
    """What the client got: both statuses, why the answer ended (``stop``...), until when it was held (``shown_s``)."""

    status: Status
    http_status: int
    finish_reason: str = ""
    error: str = ""
    detail: str = ""
    shown_s: float | None = None


class LedgerEntry(Struct, frozen=True, kw_only=True, gc=False):
    """The record of one request, made exactly once; metrics, spans, bills and learning are all read from it.

    ``request`` is ``None`` where the body was refused before it could be understood; ``route``, ``forecast`` and
    ``decision`` are ``None`` or empty where it did not get that far. ``chunks``: the prompt's digests and their ends.
    ``cache``: ``hit``, ``miss`` or ``bypass``, where the route keeps answers; ``saved_usd``: what a hit did not cost.
    ``guards``: what each did that looked at it.
    """

    arrival: Arrival
    request: ChatRequest | None
    route: str
    forecast: Forecast | None
    decision: Decision | None
    attempts: tuple[Attempt, ...]
    outcome: Outcome
    ended_s: float
    chunks: tuple[Sequence[bytes], Sequence[int]] = ((), ())
    cache: str = ""
    saved_usd: Decimal | None = None
    guards: tuple[GuardMark, ...] = ()

    @property
    def cost_usd(self) -> Decimal | None:
        """The sum over all attempts; ``None`` as soon as one has no known price."""
        if len(self.attempts) == 1:
            return self.attempts[0].cost_usd
        known = [attempt.cost_usd for attempt in self.attempts if attempt.cost_usd is not None]
        return sum(known, Decimal(0)) if len(known) == len(self.attempts) else None

    @property
    def serving(self) -> Attempt | None:
        """The attempt whose answer the client got, or the last one where there was none; the others are retries.

        The loser of a race may come last. Answers of a cascade that its judges rejected came whole, too: the last whole
        one was let out.
        """
        attempts = self.attempts
        if len(attempts) > 1 and self.outcome.status is Status.OK:
            return next((attempt for attempt in reversed(attempts) if attempt.status is Status.OK), attempts[-1])
        return attempts[-1] if attempts else None
