"""Ollama's own client over a provider that speaks nothing of Ollama's: it notices nothing."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import ollama
import pytest

from gateway.price import Usage
from gateway.types import Operation
from gateway.wire.openai_answer import Answered, Called, StreamWriter, whole_answer
from gateway.wire.openai_embeddings import embeddings_answer
from tests.clients import ollama_python

USAGE = Usage(prompt_tokens=9, output_tokens=4, cached_tokens=2)
PNG = "iVBORw0KGgo="
ASK = [{"role": "user", "content": "hi"}]
_ROW = ("operation", "model", "finish_reason", "prompt_tokens", "output_tokens", "cached_tokens")
CALLED = Called("call_1", "look", '{"at":1}')


async def _respond(request: Any, conversation: Any) -> None:
    """OpenAI's chat, completions and embeddings: a call where there are tools, an error where the prompt says so."""
    body = request.json
    if request.path.endswith("/embeddings"):
        await conversation.answer(embeddings_answer("served", [[0.5, -0.5]] * len(body["input"]), 3))
        return
    operation = Operation.CHAT if request.path.endswith("/chat/completions") else Operation.COMPLETION
    said = json.dumps(body)
    if "refuse" in said:
        await conversation.answer(b'{"error":{"message":"too hot","code":"x"}}', status=422)
        return
    calls = [CALLED] if "tools" in body and "tool_call_id" not in said else []
    if not body["stream"]:
        answer = Answered("" if calls else "Hello.", "tool_calls" if calls else "stop", "hm", calls)
        await conversation.answer(whole_answer(operation, "id", "served", 1, [answer], USAGE))
        return
    writer = StreamWriter(operation, "id", "served", 1)
    texts = [writer.call(0, 0, CALLED)] if calls else [writer.text(0, "Hel"), writer.text(0, "lo.")]
    thoughts = [writer.reasoning(0, "hm")] if operation is Operation.CHAT else []
    if "break" in said:
        await conversation.stream(*thoughts, texts[0], end=False)
        conversation.reset()
        return
    end = [writer.finish(0, "tool_calls" if calls else "stop"), writer.usage(USAGE), writer.done()]
    await conversation.stream(*thoughts, *texts, *end)


@pytest.fixture
async def upstream(serve: Any) -> Any:
    """The provider."""
    async with serve(_respond) as upstream:
        yield upstream


@pytest.fixture
async def front(upstream: Any, start_gateway: Callable[..., Awaitable[Any]]) -> Any:
    """A gateway over it, that wants a key."""
    served = {"served": {"context_tokens": 4096, "card": {"precision": "fp8"}}}
    backend = {"use": "openai_compatible", "base_url": upstream.url, "models": served}
    routes = {"all": {"models": ["llama3.2", "served"], "targets": ["up/served"]}}
    return await start_gateway({"backends": {"up": backend}, "routes": routes})


async def test_a_chat_streams(front: Any) -> None:
    """Thoughts, text, and a last line with counts and how long it took."""
    pieces = [piece async for piece in await front.ollama().chat("llama3.2:latest", ASK, stream=True)]
    assert "Hello." == "".join(piece.message.content for piece in pieces)
    assert "hm" == "".join(piece.message.thinking or "" for piece in pieces)
    last = pieces[-1]
    assert (True, "stop", 9, 4) == (last.done, last.done_reason, last.prompt_eval_count, last.eval_count)
    assert last.total_duration >= last.load_duration + last.prompt_eval_duration + last.eval_duration - 1000 > 0
    row = await front.row()
    assert ("ollama_chat", "llama3.2", "stop", 9, 4, 2) == tuple(row[name] for name in _ROW)


async def test_a_chat_comes_whole(front: Any) -> None:
    """With what was thought."""
    answer = await front.ollama().chat("llama3.2", ASK, think=True, options={"temperature": 0, "num_ctx": 2048})
    assert ("Hello.", "hm", True) == (answer.message.content, answer.message.thinking, answer.done)
    row = await front.row()
    assert ("ollama_chat", "llama3.2", "stop", 9, 4, 2) == tuple(row[name] for name in _ROW)


@pytest.mark.parametrize("streamed", [True, False])
async def test_tools_are_called_and_their_results_go_on(front: Any, streamed: bool) -> None:
    """Arguments are an object; the next turn is answered."""

    def look(at: int) -> str:
        """Looks somewhere.

        Args:
            at: where.
        """
        return f"nothing at {at}"

    client, turns = front.ollama(), list(ASK)
    answer = await client.chat("llama3.2", turns, tools=[look], stream=streamed)
    pieces = [piece async for piece in answer] if streamed else [answer]
    (call,) = (call for piece in pieces for call in piece.message.tool_calls or ())
    assert ("look", {"at": 1}) == (call.function.name, call.function.arguments)
    turns += [pieces[0].message if not streamed else {"role": "assistant", "content": "", "tool_calls": [call]}]
    turns += [{"role": "tool", "content": look(**call.function.arguments), "tool_name": "look"}]
    assert "Hello." == (await client.chat("llama3.2", turns, tools=[look])).message.content


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("fields", [{"system": "be kind"}, {"raw": True}, {"suffix": "end"}, {"images": [PNG]}])
async def test_a_generation(front: Any, fields: dict[str, Any], streamed: bool) -> None:
    """As a chat, and as a completion where it is none."""
    answer = await front.ollama().generate("llama3.2", "hi", stream=streamed, **fields)
    pieces = [piece async for piece in answer] if streamed else [answer]
    assert "Hello." == "".join(piece.response for piece in pieces)
    assert (True, 4) == (pieces[-1].done, pieces[-1].eval_count)


async def test_vectors(front: Any) -> None:
    """Of several texts, and of one as it was before."""
    client = front.ollama()
    many = await client.embed("served", ["a", "b"])
    assert ([[0.5, -0.5]] * 2, 3) == (many.embeddings, many.prompt_eval_count)
    assert [0.5, -0.5] == (await client.embeddings("served", "a")).embedding


async def test_what_is_there(front: Any) -> None:
    """Lists, and what a model can do."""
    client = front.ollama()
    assert ["llama3.2", "served"] == [model.model for model in (await client.list()).models]
    assert [4096, 4096] == [model.context_length for model in (await client.ps()).models]
    shown = await client.show("llama3.2:latest")
    assert (4096, "FP8") == (shown.modelinfo["headrace.context_length"], shown.details.quantization_level)
    assert "tools" in shown.capabilities


async def test_a_model_is_loaded(front: Any, upstream: Any) -> None:
    """As far as the client can tell: nobody was asked."""
    answer = await front.ollama().generate("llama3.2", keep_alive="10m")
    assert ("", True, "load") == (answer.response, answer.done, answer.done_reason)
    assert [] == upstream.requests


@pytest.mark.parametrize(
    ("model", "fields", "status", "words"),
    [
        ("nothing", {}, 404, "no route answers this model"),
        ("llama3.2", {"options": {"mirostat": 1}}, 400, "options.mirostat"),
        ("llama3.2", {"format": 1}, 400, "format must be"),
        ("llama3.2", {"messages": [{"role": "user", "content": "refuse"}]}, 422, "too hot"),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
async def test_errors_are_ollamas(
    front: Any, model: str, fields: dict[str, Any], status: int, words: str, streamed: bool
) -> None:
    """One sentence, by which its client raises; what has no place is named in it."""
    answer = await front.http.post("/api/chat", json={"model": model, "messages": ASK, "stream": streamed, **fields})
    assert (status, ["error"]) == (answer.status_code, list(answer.json()))
    assert words in answer.json()["error"]


async def test_an_error_in_a_stream_is_its_last_line(front: Any) -> None:
    """The client hears what came before it."""
    pieces = await front.ollama().chat("llama3.2", [{"role": "user", "content": "break"}], stream=True)
    assert "hm" == (await anext(pieces)).message.thinking
    assert "Hel" == (await anext(pieces)).message.content
    with pytest.raises(ollama.ResponseError):
        await anext(pieces)


async def test_a_key_is_wanted(start_gateway: Callable[..., Awaitable[Any]]) -> None:
    """As for everybody; a client gives it as a bearer."""
    front = await start_gateway({"locked": True})
    with pytest.raises(ollama.ResponseError) as caught:
        await front.ollama(headers={"authorization": "Bearer another"}).chat("any", ASK)
    assert 401 == caught.value.status_code
    assert (await front.ollama().chat("any", ASK)).message.content


async def test_streams_say_what_they_are(front: Any) -> None:
    """Lines of JSON, that no proxy may hold back."""
    answer = await front.http.post("/api/chat", json={"model": "llama3.2", "messages": ASK, "options": {"num_ctx": 9}})
    assert ("application/x-ndjson", "no", "options.num_ctx") == tuple(
        answer.headers[name] for name in ("content-type", "x-accel-buffering", "x-headrace-dropped")
    )


async def test_its_script_is_driven_here_too() -> None:
    """What ``make clients`` runs: the library in a process of its own, against a served gateway."""
    assert 0 == await ollama_python.main()
