"""What a gateway answers itself."""

import json
from typing import Any

import pytest

from gateway.types import Operation
from gateway.wire.formats import FORMATS
from gateway.wire.own_answers import loaded, own_answer
from tests.unit.gateway.wire.ollama_calls import call_of


@pytest.mark.parametrize(
    ("operation", "fields", "reason"),
    [
        (Operation.OLLAMA_CHAT, {"messages": []}, "load"),
        (Operation.OLLAMA_CHAT, {"messages": [], "keep_alive": 0}, "unload"),
        (Operation.OLLAMA_GENERATE, {"prompt": ""}, "load"),
        (Operation.OLLAMA_GENERATE, {"prompt": None, "keep_alive": "0"}, "unload"),
    ],
)
def test_models_are_loaded_already(operation: Operation, fields: dict[str, Any], reason: str) -> None:
    """Whoever asks for nothing else is told that it is done; no token is counted."""
    call = call_of(operation, **fields)
    body = loaded(call)
    assert body is not None
    view = FORMATS[operation].whole(call.request)
    assert (body, reason, 0) == (view.take(body), view.finish_reason, view.output_bytes)
    assert view.usage is not None
    assert (0, 0) == (view.usage.prompt_tokens, view.usage.output_tokens)
    assert "2001-09-09T01:46:40.000000Z" == json.loads(body)["created_at"]


@pytest.mark.parametrize(
    ("operation", "fields", "vectors"),
    [
        (Operation.OLLAMA_EMBED, {"input": []}, {"embeddings": []}),
        (Operation.OLLAMA_EMBEDDINGS, {"prompt": ""}, {"embedding": []}),
    ],
)
def test_nothing_to_embed_has_no_vectors(operation: Operation, fields: dict[str, Any], vectors: dict[str, Any]) -> None:
    """As Ollama answers it."""
    call = call_of(operation, **fields)
    body = loaded(call)
    assert body == FORMATS[operation].whole(call.request).take(body or b"")
    assert vectors.items() <= json.loads(body or b"").items()


@pytest.mark.parametrize(
    "operation", [Operation.CHAT, Operation.OLLAMA_CHAT, Operation.OLLAMA_GENERATE, Operation.OLLAMA_EMBED]
)
def test_what_asks_for_an_answer_goes_on(operation: Operation) -> None:
    """To who can give one."""
    assert own_answer(call_of(operation)) is None
