"""What the wire's tests share: an arrival, and the two formats' readers behind one call."""

from collections.abc import Callable

import msgspec
import pytest

from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.wire.formats import FORMATS


@pytest.fixture
def arrival() -> Arrival:
    """A request that has knocked."""
    trace = TraceContext(trace_id="0" * 32, span_id="0" * 16)
    return Arrival(id="r-1", operation=Operation.CHAT, tenant="team", received_s=1.0, received_unix_s=2.0, trace=trace)


@pytest.fixture
def read_chat(arrival: Arrival) -> Callable[..., ChatRequest]:
    """Reads a chat made of the given fields, with a model and one message where none are given."""

    def read(**fields: object) -> ChatRequest:
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
        return FORMATS[Operation.CHAT].read(arrival, msgspec.json.encode(body))

    return read


@pytest.fixture
def read_completion(arrival: Arrival) -> Callable[..., ChatRequest]:
    """Reads a completion made of the given fields, with a model and a prompt where none are given."""

    def read(**fields: object) -> ChatRequest:
        body = {"model": "m", "prompt": "hi", **fields}
        return FORMATS[Operation.COMPLETION].read(arrival, msgspec.json.encode(body))

    return read
