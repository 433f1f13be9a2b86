"""Every answer and event that a gateway gives is of the types of its format's official library, read strictly."""

import json
from collections.abc import Callable
from typing import Any

import anthropic.types as anthropic
import ollama
import pytest
from openai.types import Completion, CreateEmbeddingResponse, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from tests.anthropic_answers import checked_error, checked_events, checked_message

SAID = [{"role": "user", "content": "hi"}]
OPENAI_ERROR = {"message", "type", "param", "code"}


def _reads(kind: type[BaseModel]) -> Callable[[bytes], Any]:
    return lambda body: kind.model_validate_json(body, strict=True)


WHOLE: dict[str, tuple[dict[str, Any], Callable[[bytes], Any]]] = {
    "/v1/chat/completions": ({"messages": SAID, "n": 2}, _reads(ChatCompletion)),
    "/v1/completions": ({"prompt": ["a", "b"]}, _reads(Completion)),
    "/v1/embeddings": ({"input": ["a", "b"], "encoding_format": "float"}, _reads(CreateEmbeddingResponse)),
    "/v1/responses": ({"input": "hi"}, Response.model_validate_json),
    "/v1/messages": ({"messages": SAID, "max_tokens": 9}, checked_message),
    "/v1/messages/count_tokens": ({"messages": SAID}, _reads(anthropic.MessageTokensCount)),
    "/api/chat": ({"messages": SAID, "stream": False}, ollama.ChatResponse.model_validate_json),
    "/api/generate": ({"prompt": "hi", "stream": False}, ollama.GenerateResponse.model_validate_json),
    "/api/embed": ({"input": "hi"}, ollama.EmbedResponse.model_validate_json),
    "/api/embeddings": ({"prompt": "hi"}, ollama.EmbeddingsResponse.model_validate_json),
}
_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def _data(kind: type[BaseModel]) -> Callable[[bytes], Any]:
    def read(stream: bytes) -> None:
        *frames, last, rest = stream.split(b"\n\n")
        assert (b"data: [DONE]", b"") == (last, rest)
        for frame in frames:
            data = frame.removeprefix(b"data: ")
            if kind is Completion:  # which was written for whole answers: OpenAI's own events have null until the end
                data = data.replace(b'"finish_reason":null', b'"finish_reason":"stop"')
            kind.model_validate_json(data, strict=True)

    return read


def _responses(stream: bytes) -> None:
    for frame in stream.removesuffix(b"\n\n").split(b"\n\n"):
        _EVENT.validate_json(frame.partition(b"\ndata: ")[2])


def _lines(kind: type[BaseModel]) -> Callable[[bytes], Any]:
    return lambda stream: [kind.model_validate_json(line) for line in stream.splitlines()]


COUNTED = {"stream_options": {"include_usage": True}}
STREAMED: dict[str, tuple[dict[str, Any], Callable[[bytes], Any]]] = {
    "/v1/chat/completions": ({"messages": SAID, "n": 2, **COUNTED}, _data(ChatCompletionChunk)),
    "/v1/completions": ({"prompt": "a", **COUNTED}, _data(Completion)),
    "/v1/responses": ({"input": "hi"}, _responses),
    "/v1/messages": ({"messages": SAID, "max_tokens": 9}, checked_events),
    "/api/chat": ({"messages": SAID}, _lines(ollama.ChatResponse)),
    "/api/generate": ({"prompt": "hi"}, _lines(ollama.GenerateResponse)),
}


@pytest.mark.parametrize("path", WHOLE)
async def test_a_whole_answer(running: Any, path: str) -> None:
    """Nothing is missing, nothing is of another kind."""
    fields, read = WHOLE[path]
    response = await running.http.post(path, json={"model": "fake", **fields})
    assert 200 == response.status_code, response.text
    read(response.content)


@pytest.mark.parametrize("path", STREAMED)
async def test_a_streamed_answer(running: Any, path: str) -> None:
    """Event by event."""
    fields, read = STREAMED[path]
    response = await running.http.post(path, json={"model": "fake", "stream": True, **fields})
    assert 200 == response.status_code, response.text
    read(response.content)


@pytest.mark.parametrize("path", WHOLE)
async def test_an_error(running: Any, path: str) -> None:
    """Before anything was said: the envelope on which each library raises."""
    response = await running.http.post(path, json={"model": "fake", "messages": 7, "prompt": {}, "input": {}})
    assert 400 == response.status_code
    if path.startswith("/v1/messages"):
        assert "invalid_request_error" == checked_error(response.content)["type"]
    elif path.startswith("/api/"):
        assert ["error"] == list(response.json())
    else:
        assert OPENAI_ERROR == set(response.json()["error"])


async def test_models(running: Any) -> None:
    """In each library's own shape, by who asks."""
    by_openai = (await running.http.get("/v1/models")).json()["data"]
    named = [Model.model_validate_json(json.dumps(card), strict=True).id for card in by_openai]
    version = {"anthropic-version": "2023-06-01"}
    by_anthropic = (await running.http.get("/v1/models", headers=version)).json()["data"]
    listed = ollama.ListResponse.model_validate_json((await running.http.get("/api/tags")).content)
    assert named
    assert named == [anthropic.ModelInfo.model_validate(card).id for card in by_anthropic]
    assert named == [model.model for model in listed.models]


async def test_an_answer_that_was_kept(running: Any) -> None:
    """It is the same response again."""
    first = (await running.http.post("/v1/responses", json={"model": "fake", "input": "hi"})).json()
    kept = await running.http.get(f"/v1/responses/{first['id']}")
    Response.model_validate_json(kept.content)
    assert first == kept.json()
