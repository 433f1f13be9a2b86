"""A clock that tests turn by hand, and ledger entries made to measure."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.conversation import FunctionCall, Message, Part, Sampling, ToolCall
from gateway.forecast import Forecast
from gateway.price import Usage
from gateway.types import Arrival, Attempt, ChatRequest, LedgerEntry, Operation, Outcome, Status, TraceContext

MARKER = "xyzzy-plugh-marker"


@dataclass
class HandTurnedClock:
    """The ``Clock`` port; time moves when a test says so, or when somebody sleeps."""

    now: float = 1000.0

    def now_s(self) -> float:
        """Monotonic seconds."""
        return self.now

    def unix_s(self) -> float:
        """Seconds since the epoch."""
        return 1_700_000_000.0 + self.now

    async def sleep(self, seconds: float) -> None:
        """Moves the time on."""
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> HandTurnedClock:
    """A clock that stands still until it is turned."""
    return HandTurnedClock()


def _arrival(number: int) -> Arrival:
    return Arrival(
        id=f"req-{number}",
        operation=Operation.CHAT,
        tenant="acme",
        received_s=100.0,
        received_unix_s=1_700_000_000.0,
        trace=TraceContext(trace_id=f"{number + 1:032x}", span_id=f"{number + 1:016x}"),
    )


def _attempt(**changes: Any) -> Attempt:
    attempt = Attempt(
        backend="groq",
        model="llama",
        status=Status.OK,
        started_s=100.25,
        first_token_s=100.5,
        ended_s=102.5,
        span_id="00000000000000aa",
        usage=Usage(prompt_tokens=100, output_tokens=51, cached_tokens=40, reasoning_tokens=7),
        cost_usd=Decimal("0.00012"),
    )
    return replace(attempt, **changes)


@pytest.fixture
def make_attempt() -> Callable[..., Attempt]:
    """An attempt that went well, with whatever fields a test changes."""
    return _attempt


@pytest.fixture
def make_entry() -> Callable[..., LedgerEntry]:
    """The entry of a streamed chat that went well, with whatever fields a test changes."""

    def make(number: int = 0, **changes: Any) -> LedgerEntry:
        arrival = _arrival(number)
        entry = LedgerEntry(
            arrival=arrival,
            request=ChatRequest(arrival=arrival, model="fast", stream=True),
            route="default",
            forecast=Forecast(prompt_tokens=90, output_tokens_p50=50, output_tokens_p90=200),
            decision=None,
            attempts=(_attempt(),),
            outcome=Outcome(status=Status.OK, http_status=200, finish_reason="stop"),
            ended_s=102.5,
        )
        return replace(entry, **changes)

    return make


@pytest.fixture
def marker() -> str:
    """What stands in every place of ``marked_entry`` that can hold words."""
    return MARKER


@pytest.fixture
def marked_entry(make_entry: Callable[..., LedgerEntry]) -> LedgerEntry:
    """An entry with the marker wherever a prompt, an answer or an upstream's words can be."""
    entry = make_entry()
    call = ToolCall(id=MARKER, function=FunctionCall(name=MARKER, arguments=MARKER))
    request = replace(
        entry.request,
        messages=(
            Message(role="system", content=MARKER),
            Message(role="user", content=(Part(type="text", text=MARKER), Part(type="image_url", image_url=MARKER))),
            Message(role="assistant", tool_calls=(call,)),
            Message(role="tool", content=MARKER, tool_call_id=MARKER, name=MARKER),
        ),
        prompt=MARKER,
        sampling=Sampling(stop=(MARKER,)),
        raw={"messages": MARKER.encode(), "tools": MARKER.encode()},
    )
    failed = _attempt(status=Status.UPSTREAM_FAILED, error="UpstreamFailed", detail=f"500: {MARKER}")
    outcome = Outcome(
        status=Status.UPSTREAM_FAILED, http_status=502, error="UpstreamFailed", detail=f"it said {MARKER}"
    )
    return replace(entry, request=request, attempts=(failed,), outcome=outcome)
