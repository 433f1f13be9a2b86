"""Makes the values of the vocabulary for tests: each fixture is a function that fills in what the test leaves out."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.conversation import Message
from gateway.forecast import Forecast
from gateway.price import Price, Usage
from gateway.types import (
    Arrival,
    Attempt,
    Bill,
    Candidate,
    ChatRequest,
    Context,
    LedgerEntry,
    Operation,
    Outcome,
    Status,
    TraceContext,
)
from gateway.worth import Worth

_ARRIVAL = Arrival(
    id="req-1",
    operation=Operation.CHAT,
    tenant="acme",
    received_s=100.0,
    received_unix_s=1_700_000_000.0,
    trace=TraceContext(trace_id="0" * 31 + "1", span_id="0" * 15 + "1"),
)

_CANDIDATE = Candidate(
    backend="alpha",
    model="small",
    operations=frozenset({Operation.CHAT}),
    capabilities=None,
    carries=None,
    context_tokens=8192,
    price=Price(input_usd_per_mtok=Decimal(1), output_usd_per_mtok=Decimal(2)),
    in_flight=0,
    concurrency=None,
    queued_prefill_tokens=0,
    running_output_tokens=0,
    warm_tokens=0,
    prefill_tokens_per_s=1000.0,
    seconds_per_token=0.02,
    failure_rate=0.0,
)


def _request(
    *texts: str,
    request_id: str = "req-1",
    tenant: str = "acme",
    operation: Operation = Operation.CHAT,
    session: str = "",
    **fields: Any,
) -> ChatRequest:
    """A request; ``texts`` are turns, the user's and the assistant's in alternation."""
    if texts:
        roles = ("user", "assistant")
        turns = tuple(Message(role=roles[turn % 2], content=text) for turn, text in enumerate(texts))
        fields = {"messages": turns, "prompt_bytes": sum(len(text.encode()) for text in texts), **fields}
    arrival = replace(_ARRIVAL, id=request_id, tenant=tenant, operation=operation, session=session)
    return ChatRequest(**{"arrival": arrival, "model": "small", **fields})


def _context(
    request: ChatRequest | None = None,
    *,
    prompt_tokens: int = 1000,
    p50: int = 100,
    p90: int = 300,
    usd_per_second: float = 0.01,
    usd_per_success: float = 0.05,
) -> Context:
    return Context(
        request=request or _request("hello"),
        forecast=Forecast(prompt_tokens=prompt_tokens, output_tokens_p50=p50, output_tokens_p90=p90),
        worth=Worth(usd_per_second=usd_per_second, usd_per_success=usd_per_success),
    )


def _candidate(**fields: Any) -> Candidate:
    return replace(_CANDIDATE, **fields)


def _bill(total_usd: float, *, backend: str = "alpha", **fields: Any) -> Bill:
    candidate = _candidate(backend=backend, **fields)
    return Bill(candidate=candidate, terms=(("money", total_usd),), total_usd=total_usd)


def _entry(
    request: ChatRequest | None = None,
    *,
    status: Status = Status.OK,
    finish_reason: str = "stop",
    usage: Usage | None = None,
    output_tokens: int = 100,
) -> LedgerEntry:
    """The record of a request with one attempt, which wrote ``output_tokens`` unless ``usage`` says otherwise."""
    request = request or _request("hello")
    attempt = Attempt(
        backend="alpha",
        model="small",
        status=status,
        started_s=100.0,
        ended_s=102.0,
        span_id="0" * 15 + "2",
        first_token_s=100.5,
        usage=usage or Usage(prompt_tokens=10, output_tokens=output_tokens),
        cost_usd=Decimal("0.0001"),
    )
    return LedgerEntry(
        arrival=request.arrival,
        request=request,
        route="default",
        forecast=None,
        decision=None,
        attempts=(attempt,),
        outcome=Outcome(status=status, http_status=200, finish_reason=finish_reason),
        ended_s=102.0,
    )


@pytest.fixture(scope="session")
def make_request() -> Callable[..., ChatRequest]:
    """A chat request of a tenant; texts are turns in alternation, fields are those of ``ChatRequest``."""
    return _request


@pytest.fixture(scope="session")
def make_context() -> Callable[..., Context]:
    """A context with a forecast and exchange rates."""
    return _context


@pytest.fixture(scope="session")
def make_candidate() -> Callable[..., Candidate]:
    """An idle, able candidate that costs 1 and 2 US dollars per million tokens."""
    return _candidate


@pytest.fixture(scope="session")
def make_bill() -> Callable[..., Bill]:
    """A bill with one term."""
    return _bill


@pytest.fixture(scope="session")
def make_entry() -> Callable[..., LedgerEntry]:
    """The record of a request that ended well."""
    return _entry
