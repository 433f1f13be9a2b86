"""Bodies of Ollama's clients that go up to one of its servers as they came."""

import json
from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.types import Operation
from gateway.wire.formats import FORMATS
from tests.unit.gateway.wire.ollama_calls import request_of

CHAT, GENERATE = Operation.OLLAMA_CHAT, Operation.OLLAMA_GENERATE


def test_a_message_that_goes_up_as_it_came_is_spelled_as_it_was_read() -> None:
    """Ollama reads ``Content`` as ``content``; what else there is, a tool's own names too, goes on."""
    calls = [{"function": {"name": "f", "arguments": {"Content": 1}}}]
    spelled = {"role": "assistant", "content": "a", "tool_calls": calls, "Other": 1}
    request = request_of(CHAT, messages=[spelled])
    assert [spelled] == json.loads(FORMATS[CHAT].upstream_body(request, "there"))["messages"]
    hidden = request_of(CHAT, messages=[spelled, {"role": "user", "content": "a", "Content": "b"}])
    with pytest.raises(InvalidRequest, match=r"messages\[1\] has a field that some would take for content"):
        FORMATS[CHAT].upstream_body(hidden, "there")


@pytest.mark.parametrize("operation", [CHAT, GENERATE])
def test_what_only_loads_a_model_has_no_messages_to_look_at(operation: Operation) -> None:
    """Nor has a generation, whose field of that name nobody knows."""
    given: Any = {"messages": None} if operation is CHAT else {"messages": 5}
    assert (
        given["messages"]
        == json.loads(FORMATS[operation].upstream_body(request_of(operation, **given), "m"))["messages"]
    )
