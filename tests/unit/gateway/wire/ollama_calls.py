"""Calls of Ollama's clients, for tests of the wire."""

from typing import Any

import msgspec

from gateway.types import Arrival, Call, ChatRequest, Operation, TraceContext
from gateway.wire.formats import FORMATS

WHOLE, STREAMED = False, True
"""Which reader or writer is meant."""
TRACE = TraceContext(trace_id="0" * 32, span_id="0" * 16)
SMALLEST: dict[Operation, dict[str, Any]] = {
    Operation.CHAT: {"messages": [{"role": "user", "content": "hi"}]},
    Operation.COMPLETION: {"prompt": "hi"},
    Operation.EMBEDDING: {"input": "hi"},
    Operation.OLLAMA_CHAT: {"messages": [{"role": "user", "content": "hi"}]},
    Operation.OLLAMA_GENERATE: {"prompt": "hi"},
    Operation.OLLAMA_EMBED: {"input": "hi"},
    Operation.OLLAMA_EMBEDDINGS: {"prompt": "hi"},
}


def request_of(operation: Operation, **fields: Any) -> ChatRequest:
    """A request with the smallest body, and these fields in it or in place of it."""
    arrival = Arrival(id="r", operation=operation, tenant="t", received_s=10.0, received_unix_s=1e9, trace=TRACE)
    return FORMATS[operation].read(arrival, msgspec.json.encode({"model": "m", **SMALLEST[operation], **fields}))


def call_of(operation: Operation, **fields: Any) -> Call:
    """A call of the same, on a clock that stands still."""
    return Call(request=request_of(operation, **fields), model="m", trace=TRACE, now_s=lambda: 10.0)
