from typing import Any

import msgspec
import pytest

from gateway.commands.body_format import operation_of
from gateway.types import Operation

SAID = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PICTURE = {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://x"}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "4"}]}


@pytest.mark.parametrize(
    ("fields", "operation"),
    [
        (SAID, Operation.CHAT),
        ({**SAID, "max_tokens": 5, "top_k": 4}, Operation.CHAT),
        ({**SAID, "tools": [{"type": "function", "function": {"name": "f"}}]}, Operation.CHAT),
        ({**SAID, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, Operation.CHAT),
        ({**SAID, "system": "be brief", "max_tokens": 5}, Operation.MESSAGES),
        ({**SAID, "tools": [{"name": "f", "input_schema": {}}]}, Operation.MESSAGES),
        ({**SAID, "messages": [PICTURE]}, Operation.MESSAGES),
        ({**SAID, "messages": [RESULT]}, Operation.MESSAGES),
        ({"model": "m", "prompt": "once"}, Operation.COMPLETION),
        ({"model": "m", "input": "a text"}, Operation.EMBEDDING),
        ({"model": "m", "input": ["a", "b"], "dimensions": 8}, Operation.EMBEDDING),
        ({"model": "m", "input": [[1, 2], [3]]}, Operation.EMBEDDING),
        ({"model": "m", "input": "hi", "max_output_tokens": 5}, Operation.RESPONSE),
        ({"model": "m", "input": [{"role": "user", "content": "hi"}]}, Operation.RESPONSE),
        ({**SAID, "options": {"num_predict": 5}}, Operation.OLLAMA_CHAT),
        ({"model": "m", "prompt": "once", "raw": True}, Operation.OLLAMA_GENERATE),
        ({"model": "m", "input": "a text", "keep_alive": "5m"}, Operation.OLLAMA_EMBED),
        ({"model": "m", "messages": "odd", "tools": 3}, Operation.CHAT),
        ({}, Operation.CHAT),
    ],
)
def test_a_body_tells_its_format(fields: dict[str, Any], operation: Operation) -> None:
    """By what only that format has; what may be of several is taken for the commonest."""
    assert operation == operation_of(msgspec.json.encode(fields))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"[" * 5000])
def test_what_is_no_body_is_left_to_its_reader(body: bytes) -> None:
    """Who says what is wrong with it."""
    assert Operation.CHAT == operation_of(body)
