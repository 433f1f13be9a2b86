"""The backends under test, each over a server that answers as its provider does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from backends._faults import Fault
from backends._made_up import MadeUp, words_of
from backends.anthropic import Anthropic
from backends.azure_openai import AzureOpenAI
from backends.bedrock import Bedrock
from backends.embedded import Embedded
from backends.fake import Fake
from backends.gemini import Gemini
from backends.ollama import Ollama
from backends.openai_compatible import OpenAICompatible
from gateway.endpoints import OPERATIONS
from gateway.ports import Backend
from gateway.price import Usage
from gateway.types import Operation
from tests.aws_frames import event
from tests.contract.answer_scripts import AnthropicScript, OllamaScript

KEY = "sk-canary-0123456789"
MOODS = ("", "silent", "stalling")


@dataclass(frozen=True)
class Subject:
    """A backend under test. Its calls are of ``model``, and made ``silent`` or ``stalling`` by their ``user``.

    ``fields`` are those that all its calls may have.
    ``broken`` is one of the same kind that is started and cannot serve; ``freed`` returns when nothing is in use.
    """

    backend: Backend
    silent: Backend
    stalling: Backend
    broken: Backend
    model: str
    freed: Callable[[], Awaitable[None]]
    fields: Mapping[str, Any] = field(default_factory=lambda: {"seed": 7})

    def serves(self, operation: Operation) -> None:
        """Skips where it does not: no upstream of that kind has it."""
        if operation not in self.backend.facts().operations:
            pytest.skip(f"it does not serve {operation}")


Opened = AbstractAsyncContextManager[Subject]


async def _reply(
    conversation: Any, answer: bytes | list[bytes], mood: str | None, *, shown: int = 2, **how: Any
) -> None:
    """An answer as the mood has it: never, up to its first ``shown`` events and no further, or all of it."""
    if mood == "silent":
        await conversation.until_closed()
    elif isinstance(answer, bytes):
        await conversation.answer(answer)
    else:
        await conversation.stream(*answer[: shown if mood == "stalling" else None], end=mood != "stalling", **how)
        if mood == "stalling":
            await conversation.until_closed()


@asynccontextmanager
async def _over_one(
    kind: Callable[..., Any], respond: Any, surroundings: Any, serve: Any, **fields: Any
) -> AsyncIterator[Subject]:
    """One backend over one server, which learns its mood from each request."""
    world = surroundings(KEY=KEY)
    async with serve(respond) as gone:
        pass
    async with serve(respond) as upstream:
        backend = kind(base_url=upstream.url, api_key_env="KEY", models=("served",), concurrency=4)
        broken = kind(base_url=gone.url, api_key_env="KEY", models=("served",))
        await backend.start("under-test", world)
        await broken.start("under-test", world)

        async def freed() -> None:
            await upstream.until(lambda it: it.answering == 0)

        yield Subject(backend, backend, backend, broken, "served", freed, **fields)
        await backend.close()
        await broken.close()


@asynccontextmanager
async def _over_moods(
    kind: Callable[[str], Any], respond: Any, world: Any, serve: Any, **fields: Any
) -> AsyncIterator[Subject]:
    """Where a format has no field for a client's ``user``, each mood has a server and a backend of its own.

    ``kind`` makes a backend for a server's address, ``respond`` answers a request by its mood.
    """
    async with serve(partial(respond, "")) as gone:
        pass
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serve(partial(respond, mood))) for mood in MOODS]
        backends = [kind(server.url) for server in (*servers, gone)]
        for backend in backends:
            await backend.start("under-test", world)

        async def freed() -> None:
            for server in servers:
                await server.until(lambda it: it.answering == 0)

        yield Subject(*backends, "served", freed, **fields)
        for backend in backends:
            await backend.close()


def _answer(request: Any) -> bytes | list[bytes]:
    fields = request.json
    limit = fields.get("max_completion_tokens", fields.get("max_tokens", 0))
    made_up = MadeUp(
        operation=OPERATIONS[request.path.replace("/v1/v1", "/v1")],
        id="id-1",
        model=fields["model"],
        created_unix_s=1,
        words=words_of("one two three", limit),
        reason="length",
        n=len(fields.get("input", ())) or fields.get("n", 1),
        usage=Usage(prompt_tokens=3, output_tokens=limit * fields.get("n", 1)),
        usage_at="given",
    )
    return list(made_up.events()) if fields.get("stream") else b"".join(made_up.halves())


async def _respond(request: Any, conversation: Any) -> None:
    await _reply(conversation, _answer(request), request.json.get("user"))


def _openai_compatible(surroundings: Any, serve: Any, **_: Any) -> Opened:
    return _over_one(OpenAICompatible, _respond, surroundings, serve)


def _azure_openai(surroundings: Any, serve: Any, **_: Any) -> Opened:
    return _over_one(AzureOpenAI, _respond, surroundings, serve)


def _message(fields: Mapping[str, Any]) -> bytes | list[bytes]:
    """What Anthropic would answer: as many words as may be."""
    words = words_of("one two three", fields["max_tokens"])
    script = AnthropicScript(model=fields["model"], usage=Usage(prompt_tokens=3, output_tokens=len(words)))
    if not fields.get("stream"):
        return script.whole("".join(words))
    return [script.opened(), *map(script.text, words), script.ended("max_tokens"), script.done()]


async def _respond_as_anthropic(request: Any, conversation: Any) -> None:
    await _reply(conversation, _message(request.json), request.json.get("metadata", {}).get("user_id"), shown=3)


def _anthropic(surroundings: Any, serve: Any, **_: Any) -> Opened:
    return _over_one(Anthropic, _respond_as_anthropic, surroundings, serve, fields={})


def _ollama_answer(request: Any) -> bytes | list[bytes]:
    """What Ollama would answer: as many words as may be, or a vector for each text."""
    fields = request.json
    if "input" in fields:
        vectors = [[0.6, 0.0, -0.8] for _ in fields["input"]]
        return msgspec.json.encode({"model": fields["model"], "embeddings": vectors, "prompt_eval_count": 3})
    words = words_of("one two three", fields["options"]["num_predict"])
    usage = Usage(prompt_tokens=3, output_tokens=len(words))
    script = OllamaScript(chat=request.path.endswith("/chat"), model=fields["model"], usage=usage)
    if not fields.get("stream", True):
        return script.whole("".join(words))
    return [*map(script.text, words), script.ended("length")]


async def _respond_as_ollama(mood: str, request: Any, conversation: Any) -> None:
    await _reply(conversation, _ollama_answer(request), mood, kind="application/x-ndjson")


def _ollama(surroundings: Any, serve: Any, **_: Any) -> Opened:
    def kind(url: str) -> Ollama:
        return Ollama(base_url=url.removesuffix("/v1"), api_key_env="KEY", models=("served",), refresh_s=0)

    return _over_moods(kind, _respond_as_ollama, surroundings(KEY=KEY), serve)


def _gemini_pieces(request: Any, *, whole: bool) -> list[bytes]:
    """What Gemini would answer: as many words as may be, for each candidate."""
    config = request.json["generationConfig"]
    limit, candidates = config["maxOutputTokens"], range(config.get("candidateCount", 1))
    words = words_of("one two three", limit)
    counts = {"promptTokenCount": 3, "candidatesTokenCount": limit * len(candidates)}
    texts = ["".join(words)] if whole else words
    ends: list[dict[str, Any]] = [*({} for _ in texts[1:]), {"finishReason": "MAX_TOKENS"}]
    return [
        msgspec.json.encode(
            {
                "candidates": [{"index": at, "content": {"parts": [{"text": text}]}, **end} for at in candidates],
                "modelVersion": request.path.partition("/models/")[2].partition(":")[0],
                "usageMetadata": counts,
            }
        )
        for text, end in zip(texts, ends, strict=True)
    ]


async def _respond_as_gemini(mood: str, request: Any, conversation: Any) -> None:
    whole = request.path.endswith(":generateContent")
    pieces = _gemini_pieces(request, whole=whole)
    await _reply(conversation, pieces[0] if whole else [b"data: %b\r\n\r\n" % piece for piece in pieces], mood)


def _gemini(surroundings: Any, serve: Any, **_: Any) -> Opened:
    def kind(url: str) -> Gemini:
        return Gemini(base_url=url, api_key_env="KEY", models=("served",))

    return _over_moods(kind, _respond_as_gemini, surroundings(KEY=KEY), serve)


def _converse_answer(request: Any) -> bytes | list[bytes]:
    """What Converse would answer: as many words as may be."""
    limit = request.json["inferenceConfig"]["maxTokens"]
    words = words_of("one two three", limit)
    usage = {"usage": {"inputTokens": 3, "outputTokens": limit, "totalTokens": 3 + limit}, "metrics": {"latencyMs": 1}}
    if request.path.endswith("/converse"):
        message = {"role": "assistant", "content": [{"text": "".join(words)}]}
        return msgspec.json.encode({"output": {"message": message}, "stopReason": "max_tokens", **usage})
    return [
        event("messageStart", {"role": "assistant"}),
        *(event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": word}}) for word in words),
        event("messageStop", {"stopReason": "max_tokens"}),
        event("metadata", usage),
    ]


async def _respond_as_bedrock(mood: str, request: Any, conversation: Any) -> None:
    kind = "application/vnd.amazon.eventstream"
    await _reply(conversation, _converse_answer(request), mood, shown=3, kind=kind)


def _bedrock(surroundings: Any, serve: Any, **_: Any) -> Opened:
    known = {"region": "eu-central-1", "access_key_env": "ID", "secret_key_env": "KEY", "models": ("served",)}

    def kind(url: str) -> Bedrock:
        return Bedrock(base_url=url, **known)

    return _over_moods(kind, _respond_as_bedrock, surroundings(ID="AKIDEXAMPLE", KEY=KEY), serve, fields={})


@asynccontextmanager
async def _fake(surroundings: Any, **_: Any) -> AsyncIterator[Subject]:
    fakes = [
        Fake(text="one two three", tokens=1000, models=("served",), fail=(fault,) if fault else (), repeat=True)
        for fault in (None, Fault(kind="hang"), Fault(kind="stall", after_chunks=2), Fault(kind="refuse"))
    ]
    for fake in fakes:
        await fake.start("under-test", surroundings())

    async def freed() -> None:
        assert [fake.open_calls for fake in fakes] == [fake.closed_calls for fake in fakes]

    yield Subject(*fakes, "served", freed)
    for fake in fakes:
        await fake.close()


@asynccontextmanager
async def _embedded(surroundings: Any, default_model: Callable[[], Path], **_: Any) -> AsyncIterator[Subject]:
    path = default_model()
    backend, broken = Embedded(slots=2, context_tokens=1024, threads=1), Embedded()
    await broken.start("under-test", surroundings())
    await backend.start("under-test", surroundings(model_dir=path.parent))
    while backend.facts().down is not None:  # noqa: ASYNC110  # readiness is a fact, and facts are polled
        await asyncio.sleep(0.02)

    async def freed() -> None:
        assert backend._life.engine is not None
        assert {} == backend._life.engine._generations

    yield Subject(backend, backend, backend, broken, backend.model, freed)
    await backend.close()
    await broken.close()


SUBJECTS = {
    "anthropic": _anthropic,
    "azure_openai": _azure_openai,
    "bedrock": _bedrock,
    "embedded": _embedded,
    "fake": _fake,
    "gemini": _gemini,
    "ollama": _ollama,
    "openai_compatible": _openai_compatible,
}
