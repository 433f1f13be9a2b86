"""Each client format in turn."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.wire.format import Format
from gateway.wire.formats import FORMATS
from tests.contract.smallest_bodies import BODIES


@pytest.fixture(params=FORMATS, ids=str)
def operation(request: pytest.FixtureRequest) -> Operation:
    """Each endpoint in turn."""
    chosen: Operation = request.param
    return chosen


@pytest.fixture
def wire(operation: Operation) -> Format:
    """Its format."""
    return FORMATS[operation]


@pytest.fixture
def read(operation: Operation, wire: Format) -> Callable[..., ChatRequest]:
    """Reads its smallest body with the given fields beside."""
    trace = TraceContext(trace_id="0" * 32, span_id="0" * 16)
    knocked = Arrival(id="r", operation=operation, tenant="t", received_s=1.0, received_unix_s=2.0, trace=trace)

    def call(body: bytes | None = None, **fields: Any) -> ChatRequest:
        return wire.read(knocked, msgspec.json.encode({**BODIES[operation], **fields}) if body is None else body)

    return call
