"""Every client format over Ollama's own: a loopback server that answers as Ollama does, after a file of exchanges."""

import base64
import json
import struct
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml

EXCHANGE: Mapping[str, Any] = yaml.safe_load(
    (Path(__file__).parent / "ollama_exchanges" / "qwen3.yaml").read_text(encoding="utf-8")
)
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
ASK: dict[str, Any] = {"model": "qwen3", "messages": [{"role": "user", "content": "hi"}]}


def _lines(name: str) -> list[dict[str, Any]]:
    """A stream of the exchange's, with the line that ends it."""
    lines = EXCHANGE[name]
    last = {"message": {"role": "assistant", "content": ""}} if "message" in lines[0] else {"response": ""}
    return [*lines, {**lines[-1], **last, **EXCHANGE["end"]}]


def _whole(name: str) -> dict[str, Any]:
    """The same as one answer."""
    *lines, last = _lines(name)
    if "response" in last:
        return {**last, "response": "".join(line["response"] for line in lines)}
    messages = [line["message"] for line in lines]
    text = "".join(message["content"] for message in messages)
    said = {key: value for message in messages for key, value in message.items()}
    return {**last, "message": {**said, "content": text}}


async def _respond(request: Any, conversation: Any) -> None:
    if request.path in EXCHANGE["about"]:
        await conversation.answer(json.dumps(EXCHANGE["about"][request.path]).encode())
    elif request.json["model"] != "qwen3":
        await conversation.answer(json.dumps(EXCHANGE["missing"]).encode(), status=404)
    elif request.path == "/api/embed":
        await conversation.answer(json.dumps(EXCHANGE["embed"]).encode())
    else:
        name = "generate" if request.path == "/api/generate" else "call" if request.json.get("tools") else "chat"
        if request.json.get("stream", True):
            lines = [json.dumps(line).encode() + b"\n" for line in _lines(name)]
            await conversation.stream(*lines, kind="application/x-ndjson")
        else:
            await conversation.answer(json.dumps(_whole(name)).encode())


@pytest.fixture
async def upstream(serve: Any) -> Any:
    """The server."""
    async with serve(_respond) as upstream:
        yield upstream


@pytest.fixture
async def front(upstream: Any, start_gateway: Callable[..., Awaitable[Any]], eventually: Any) -> Any:
    """A gateway over it, that has heard which models it has."""
    running = await start_gateway(
        {"backends": {"local": {"use": "ollama", "base_url": upstream.url.removesuffix("/v1")}}}
    )
    await eventually(lambda: running.backend("local").facts().models)
    return running


async def test_a_chat(front: Any, upstream: Any) -> None:
    """Whole and streamed, with what was thought and counted; a long prompt is not to be cut."""
    client = front.openai()
    whole = await client.chat.completions.create(**ASK, temperature=1, max_tokens=9)
    chunks = [chunk async for chunk in await client.chat.completions.create(**ASK, stream=True)]
    assert "Hello." == whole.choices[0].message.content
    assert "Hello." == "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert ("hm", 9, 4) == (
        whole.choices[0].message.reasoning_content,
        whole.usage.prompt_tokens,
        whole.usage.completion_tokens,
    )
    sent = next(request.json for request in upstream.requests if request.path == "/api/chat")
    assert ({"temperature": 1, "num_predict": 9}, False) == (sent["options"], sent["truncate"])


async def test_a_call(front: Any) -> None:
    """It has an id, though Ollama gave none."""
    answer = await front.openai().chat.completions.create(**ASK, tools=[TOOL])
    (call,) = answer.choices[0].message.tool_calls
    assert ("look", '{"at":1}', "tool_calls") == (
        call.function.name,
        call.function.arguments,
        answer.choices[0].finish_reason,
    )
    assert call.id


async def test_the_other_formats(front: Any) -> None:
    """OpenAI's Responses, Anthropic's Messages."""
    assert "Hello." == (await front.openai().responses.create(model="qwen3", input="hi")).output_text
    message = await front.anthropic().messages.create(max_tokens=9, **ASK)
    assert "Hello." == "".join(block.text for block in message.content if block.type == "text")


async def test_completions_and_embeddings(front: Any, upstream: Any) -> None:
    """Without a template; vectors in whatever encoding."""
    client = front.openai()
    completion = await client.completions.create(model="qwen3", prompt="hi")
    streamed = [it async for it in await client.completions.create(model="qwen3", prompt="hi", stream=True)]
    assert "Hello." == completion.choices[0].text
    assert "Hello." == "".join(it.choices[0].text for it in streamed)
    sent = next(request.json for request in upstream.requests if request.path == "/api/generate")
    assert (True, "hi") == (sent["raw"], sent["prompt"])
    plain = await front.http.post("/v1/embeddings", json={"model": "qwen3", "input": "a"})
    packed = await front.http.post("/v1/embeddings", json={"model": "qwen3", "input": "a", "encoding_format": "base64"})
    assert [0.5, -0.5] == plain.json()["data"][0]["embedding"]
    assert [0.5, -0.5] == list(struct.unpack("<2f", base64.b64decode(packed.json()["data"][0]["embedding"])))


async def test_ollamas_own_clients_pass(front: Any, upstream: Any) -> None:
    """Byte for byte, but for the model's name: what no other provider could carry goes up, too."""
    fields = {"options": {"mirostat": 1, "num_ctx": 9}, "keep_alive": "1m", "future": 1}
    answer = await front.http.post("/api/chat", json={**ASK, "model": "qwen3:latest", "stream": False, **fields})
    assert "Hello." == answer.json()["message"]["content"]
    sent = next(request.json for request in upstream.requests if request.path == "/api/chat")
    assert {**ASK, "stream": False, **fields} == sent
    pieces = [piece async for piece in await front.ollama().chat(**ASK, stream=True)]
    assert ("Hello.", 2_000_000_000) == ("".join(it.message.content for it in pieces), pieces[-1].load_duration)
    row = (await front.rows())[-1]
    assert ("ollama_chat", "stop", 9, 4) == tuple(
        row[name] for name in ("operation", "finish_reason", "prompt_tokens", "output_tokens")
    )


async def test_what_it_has_is_shown(front: Any) -> None:
    """In every client's list: how its weights are stored, and the window that is loaded."""
    models = (await front.http.get("/v1/models")).json()["data"]
    assert ["nomic", "qwen3"] == sorted(model["id"] for model in models)
    (provider,) = next(model for model in models if model["id"] == "qwen3")["headrace"]["providers"]
    assert ("q4_k_m", "ollama") == (provider["precision"], provider["engine"])
    shown = await front.ollama().show("qwen3")
    assert (16384, ["completion", "tools"]) == (shown.modelinfo["headrace.context_length"], shown.capabilities)
    assert 0.0 == front.backend("local").facts().models["qwen3"].load_s


async def test_pictures_go_to_who_can_see(front: Any) -> None:
    """It says that it cannot."""
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    with pytest.raises(openai.BadRequestError, match="vision"):
        await front.openai().chat.completions.create(model="qwen3", messages=[{"role": "user", "content": [part]}])


async def test_its_errors_are_told(front: Any) -> None:
    """A model that it does not have is no fault of the client's."""
    with pytest.raises(openai.InternalServerError) as caught:
        await front.openai().chat.completions.create(model="other", messages=ASK["messages"])
    assert 502 == caught.value.status_code
