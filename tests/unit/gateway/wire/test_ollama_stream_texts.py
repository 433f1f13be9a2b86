"""Calls in Ollama's lines, whose arguments stand there as a model wrote them."""

import msgspec
import pytest

from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.wire.ollama_stream_texts import OllamaStreamTexts
from gateway.wire.sse import SseEvent

LINE = b'{"model":"m","message":{"role":"assistant","tool_calls":[{"function":{"arguments":%b}}]},"done":false}'
ARRIVAL = Arrival(
    id="req-1",
    operation=Operation.OLLAMA_CHAT,
    tenant="acme",
    received_s=0.0,
    received_unix_s=0.0,
    trace=TraceContext(trace_id="0" * 31 + "1", span_id="0" * 15 + "1"),
)


@pytest.mark.parametrize(
    ("arguments", "after"), [(b'{"a":"4111","a":1}', b'{"a":1}'), (b'{"a": "b:c"}', b'{"a": "b:c"}')]
)
def test_of_a_name_that_is_there_twice_the_member_goes_out_that_is_seen(arguments: bytes, after: bytes) -> None:
    """A line whose names are there once goes out as it came."""
    passing = OllamaStreamTexts(ChatRequest(arrival=ARRIVAL, model="m")).passing(SseEvent(b"", LINE % arguments))
    assert LINE % after == passing.data
    assert [msgspec.json.decode(after)] == [msgspec.json.decode(growth.old) for growth in passing.growths]
