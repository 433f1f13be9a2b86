"""A number that no float holds, in the body of a chat that is told to a provider of another format."""

from collections.abc import Callable, Mapping

import msgspec
import pytest

from gateway.errors import InvalidRequest
from gateway.types import ChatRequest, Operation
from gateway.wire.chat_to_anthropic import Terms, anthropic_body
from gateway.wire.chat_to_converse import ConverseTerms, converse_body
from gateway.wire.chat_to_gemini import gemini_body
from gateway.wire.chat_to_ollama import Terms as OllamaTerms
from gateway.wire.chat_to_ollama import chat_body
from gateway.wire.custom_tools import as_functions, custom_names
from tests.unit.gateway.wire.ollama_calls import request_of

CUSTOM = b'[{"type":"custom","custom":{"name":"f"},"x":1e999}]'


def asked(tools: bytes) -> ChatRequest:
    """A chat with these tools."""
    request = request_of(Operation.CHAT)
    return msgspec.structs.replace(request, raw={**request.raw, "tools": msgspec.Raw(tools)})


WRITERS: Mapping[str, Callable[[ChatRequest], bytes]] = {
    "anthropic": lambda request: anthropic_body(request, "there", Terms(max_tokens=9, thinking="budget")),
    "converse": lambda request: converse_body(request, ConverseTerms()),
    "gemini": lambda request: gemini_body(request, "budget"),
    "ollama": lambda request: chat_body(request, "there", OllamaTerms()),
}


@pytest.mark.parametrize("provider", WRITERS)
def test_it_is_the_clients_fault(provider: str) -> None:
    """Named by its field, and nobody's own error."""
    request = asked(b'[{"type":"function","function":{"name":"f","parameters":{"x":1e999}}}]')
    with pytest.raises(InvalidRequest, match="tools holds a number that is out of range"):
        WRITERS[provider](request)


def test_it_is_so_in_a_custom_tool() -> None:
    """Of a request, and of the fields of one."""
    request = asked(CUSTOM)
    with pytest.raises(InvalidRequest, match="tools holds"):
        as_functions(request, dropped=())
    with pytest.raises(InvalidRequest, match="tools holds"):
        custom_names(request.raw)
