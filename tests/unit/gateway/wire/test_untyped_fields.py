"""Fields that the door lets through as they are: a provider's format that has to look into them names what is wrong."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gateway.errors import HeadraceError, UpstreamInvalid
from gateway.types import Arrival, ChatRequest, Operation
from gateway.wire.chat_to_anthropic import Terms, anthropic_body
from gateway.wire.chat_to_converse import ConverseTerms, converse_body
from gateway.wire.chat_to_gemini import gemini_body
from gateway.wire.chat_to_ollama import Terms as OllamaTerms
from gateway.wire.chat_to_ollama import chat_body
from gateway.wire.formats import FORMATS

WRITERS: dict[str, Callable[[ChatRequest], bytes]] = {
    "anthropic": lambda request: anthropic_body(request, "m", Terms(max_tokens=9, thinking="budget")),
    "converse": lambda request: converse_body(request, ConverseTerms()),
    "gemini": lambda request: gemini_body(request, "budget"),
    "ollama": lambda request: chat_body(request, "m", OllamaTerms()),
}
ODD: list[Any] = [5, 1.5, True, "x", [1], {"a": 1}]


def _read(arrival: Arrival, operation: Operation, **fields: Any) -> ChatRequest:
    return FORMATS[operation].read(arrival, msgspec.json.encode({"model": "m", **fields}))


def _chat(arrival: Arrival, **turn: Any) -> ChatRequest:
    said = {"role": "assistant", "content": "a", **turn}
    return _read(arrival, Operation.CHAT, messages=[{"role": "user", "content": "x"}, said])


def _refused(write: Callable[[], object]) -> str:
    with pytest.raises(HeadraceError) as raised:
        write()
    assert 400 == raised.value.http_status
    return raised.value.param or ""


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("odd", [*ODD, {"name": 5}, {"name": [1]}, {"name": "f", "arguments": 5}])
def test_an_old_call_that_is_none_is_named(arrival: Arrival, writer: str, odd: Any) -> None:
    """Whatever stands in its place."""
    request = _chat(arrival, function_call=odd)
    assert _refused(lambda: WRITERS[writer](request)).startswith("messages[1].function_call")


@pytest.mark.parametrize("writer", ["anthropic", "converse", "gemini"])
@pytest.mark.parametrize("odd", [5, 1.5, True, "x", {"a": 1}])
def test_thoughts_that_are_no_list_are_named(arrival: Arrival, writer: str, odd: Any) -> None:
    """By the formats that have a place for thoughts."""
    request = _chat(arrival, thinking_blocks=odd)
    assert "messages[1].thinking_blocks" == _refused(lambda: WRITERS[writer](request))


@pytest.mark.parametrize("writer", ["anthropic", "converse", "ollama"])
@pytest.mark.parametrize("odd", ODD)
def test_a_thought_of_no_kind_is_passed_over(arrival: Arrival, writer: str, odd: Any) -> None:
    """As those of kinds that are still to come."""
    blocks = [odd, {"type": odd, "signature": "s"}]
    assert WRITERS[writer](_chat(arrival)) == WRITERS[writer](_chat(arrival, thinking_blocks=blocks))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "namespace", "name": "n", "tools": 5}]}, "tools[0].tools"),
        ({"tools": [{"type": "namespace", "name": "n", "tools": ["x"]}]}, "tools[0].tools[0]"),
        ({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": []}]}]}, "tools[0].tools[0]"),
        ({"tool_choice": {"type": "allowed_tools", "tools": 5}}, "tool_choice.tools"),
        ({"tool_choice": {"type": "allowed_tools", "tools": [{}]}}, "tool_choice.tools[0]"),
    ],
)
def test_tools_inside_of_something_are_looked_at(arrival: Arrival, fields: Any, param: str) -> None:
    """Where a response becomes a chat."""
    request = _read(arrival, Operation.RESPONSE, input="hi", **fields)
    assert request.translation is not None
    assert param == _refused(request.translation)


def test_what_is_of_no_kind_has_no_place_in_a_chat(arrival: Arrival) -> None:
    """A choice of tools, edits of the context."""
    turns, edits = [{"role": "user", "content": "x"}], {"edits": 5}
    response = _read(arrival, Operation.RESPONSE, input="hi", tool_choice={"type": ["x"]})
    message = _read(arrival, Operation.MESSAGES, max_tokens=9, messages=turns, context_management=edits)
    assert response.translation is not None
    assert message.translation is not None
    assert [("tool_choice",), ("context_management",)] == [response.translation().lost, message.translation().lost]


@pytest.mark.parametrize("status", [None, 5, [], {}, "queued"])
def test_a_response_without_a_status_of_the_end_is_none(arrival: Arrival, status: Any) -> None:
    """Whatever stands there."""
    request = _read(arrival, Operation.RESPONSE, input="hi")
    body = msgspec.json.encode({"object": "response", "status": status, "output": []})
    with pytest.raises(UpstreamInvalid):
        FORMATS[Operation.RESPONSE].whole(request).take(body)
