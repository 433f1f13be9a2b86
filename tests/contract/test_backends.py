"""What every backend does, whatever stands behind it: one suite over all of them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

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
from gateway.errors import ClientGone, UpstreamUnreachable
from gateway.ports import Backend
from gateway.price import Usage
from gateway.rules.plugins import names
from gateway.types import Call, Operation
from tests.aws_frames import event
from tests.contract.answer_scripts import AnthropicScript, OllamaScript

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = "sk-canary-0123456789"
TOKENS = 6


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
    answer, mood = _answer(request), request.json.get("user")
    if mood == "silent":
        await conversation.until_closed()
    elif isinstance(answer, bytes):
        await conversation.answer(answer)
    else:
        await conversation.stream(*answer[: 2 if mood == "stalling" else None], end=mood != "stalling")
        if mood == "stalling":
            await conversation.until_closed()


@asynccontextmanager
async def _openai_compatible(surroundings: Any, serve: Any, **_: Any) -> AsyncIterator[Subject]:
    world = surroundings(KEY=KEY)
    async with serve(_respond) as gone:
        pass
    async with serve(_respond) as upstream:
        backend = OpenAICompatible(base_url=upstream.url, api_key_env="KEY", models=("served",), concurrency=4)
        broken = OpenAICompatible(base_url=gone.url, api_key_env="KEY", models=("served",))
        await backend.start("under-test", world)
        await broken.start("under-test", world)

        async def freed() -> None:
            await upstream.until(lambda it: it.answering == 0)

        yield Subject(backend, backend, backend, broken, "served", freed)
        await backend.close()
        await broken.close()


@asynccontextmanager
async def _azure_openai(surroundings: Any, serve: Any, **_: Any) -> AsyncIterator[Subject]:
    world = surroundings(KEY=KEY)
    async with serve(_respond) as gone:
        pass
    async with serve(_respond) as upstream:
        backend = AzureOpenAI(base_url=upstream.url, api_key_env="KEY", models=("served",), concurrency=4)
        broken = AzureOpenAI(base_url=gone.url, api_key_env="KEY", models=("served",))
        await backend.start("under-test", world)
        await broken.start("under-test", world)

        async def freed() -> None:
            await upstream.until(lambda it: it.answering == 0)

        yield Subject(backend, backend, backend, broken, "served", freed)
        await backend.close()
        await broken.close()


def _message(fields: Mapping[str, Any]) -> bytes | list[bytes]:
    """What Anthropic would answer: as many words as may be."""
    words = words_of("one two three", fields["max_tokens"])
    script = AnthropicScript(model=fields["model"], usage=Usage(prompt_tokens=3, output_tokens=len(words)))
    if not fields.get("stream"):
        return script.whole("".join(words))
    return [script.opened(), *map(script.text, words), script.ended("max_tokens"), script.done()]


async def _respond_as_anthropic(request: Any, conversation: Any) -> None:
    answer, mood = _message(request.json), request.json.get("metadata", {}).get("user_id")
    if mood == "silent":
        await conversation.until_closed()
    elif isinstance(answer, bytes):
        await conversation.answer(answer)
    else:
        await conversation.stream(*answer[: 3 if mood == "stalling" else None], end=mood != "stalling")
        if mood == "stalling":
            await conversation.until_closed()


@asynccontextmanager
async def _anthropic(surroundings: Any, serve: Any, **_: Any) -> AsyncIterator[Subject]:
    world = surroundings(KEY=KEY)
    async with serve(_respond_as_anthropic) as gone:
        pass
    async with serve(_respond_as_anthropic) as upstream:
        backend = Anthropic(base_url=upstream.url, api_key_env="KEY", models=("served",), concurrency=4)
        broken = Anthropic(base_url=gone.url, api_key_env="KEY", models=("served",))
        await backend.start("under-test", world)
        await broken.start("under-test", world)

        async def freed() -> None:
            await upstream.until(lambda it: it.answering == 0)

        yield Subject(backend, backend, backend, broken, "served", freed, {})
        await backend.close()
        await broken.close()


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


def _as_ollama(mood: str) -> Callable[[Any, Any], Awaitable[None]]:
    async def respond(request: Any, conversation: Any) -> None:
        if request.method == "GET":  # it is asked for its models, and has none
            await conversation.answer(b"{}")
            return
        answer = _ollama_answer(request)
        if mood == "silent":
            await conversation.until_closed()
        elif isinstance(answer, bytes):
            await conversation.answer(answer)
        else:
            await conversation.stream(*answer[: 2 if mood else None], end=not mood, kind="application/x-ndjson")
            if mood:
                await conversation.until_closed()

    return respond


@asynccontextmanager
async def _ollama(surroundings: Any, serve: Any, **_: Any) -> AsyncIterator[Subject]:
    """Its format has no field for a client's ``user``: each mood has a server of its own."""
    world = surroundings(KEY=KEY)
    async with serve(_as_ollama("")) as gone:
        pass
    async with (
        serve(_as_ollama("")) as well,
        serve(_as_ollama("silent")) as silent,
        serve(_as_ollama("stalling")) as stalling,
    ):
        servers = (well, silent, stalling)
        addresses = [it.url.removesuffix("/v1") for it in (*servers, gone)]
        backends = [Ollama(base_url=it, api_key_env="KEY", models=("served",), refresh_s=0) for it in addresses]
        for backend in backends:
            await backend.start("under-test", world)

        async def freed() -> None:
            for server in servers:
                await server.until(lambda it: it.answering == 0)

        yield Subject(*backends, "served", freed)
        for backend in backends:
            await backend.close()


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


def _as_gemini(mood: str) -> Callable[[Any, Any], Awaitable[None]]:
    async def respond(request: Any, conversation: Any) -> None:
        whole = request.path.endswith(":generateContent")
        if mood == "silent":
            await conversation.until_closed()
        elif whole:
            await conversation.answer(_gemini_pieces(request, whole=True)[0])
        else:
            events = [b"data: %b\r\n\r\n" % piece for piece in _gemini_pieces(request, whole=False)]
            await conversation.stream(*events[: 2 if mood else None], end=not mood)
            if mood:
                await conversation.until_closed()

    return respond


@asynccontextmanager
async def _gemini(surroundings: Any, serve: Any, **_: Any) -> AsyncIterator[Subject]:
    """Its format has no field for a client's ``user``: each mood has a server of its own."""
    world = surroundings(KEY=KEY)
    async with serve(_as_gemini("")) as gone:
        pass
    async with (
        serve(_as_gemini("")) as well,
        serve(_as_gemini("silent")) as silent,
        serve(_as_gemini("stalling")) as stalling,
    ):
        servers = (well, silent, stalling)
        backends = [Gemini(base_url=it.url, api_key_env="KEY", models=("served",)) for it in (*servers, gone)]
        for backend in backends:
            await backend.start("under-test", world)

        async def freed() -> None:
            for server in servers:
                await server.until(lambda it: it.answering == 0)

        yield Subject(*backends, "served", freed)
        for backend in backends:
            await backend.close()


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


def _as_bedrock(mood: str) -> Callable[[Any, Any], Awaitable[None]]:
    async def respond(request: Any, conversation: Any) -> None:
        answer = _converse_answer(request)
        if mood == "silent":
            await conversation.until_closed()
        elif isinstance(answer, bytes):
            await conversation.answer(answer)
        else:
            events = answer[: 3 if mood else None]
            await conversation.stream(*events, end=not mood, kind="application/vnd.amazon.eventstream")
            if mood:
                await conversation.until_closed()

    return respond


@asynccontextmanager
async def _bedrock(surroundings: Any, serve: Any, **_: Any) -> AsyncIterator[Subject]:
    """Its format has no field for a client's ``user``: each mood has a server of its own."""
    world = surroundings(ID="AKIDEXAMPLE", KEY=KEY)
    async with serve(_as_bedrock("")) as gone:
        pass
    async with (
        serve(_as_bedrock("")) as well,
        serve(_as_bedrock("silent")) as silent,
        serve(_as_bedrock("stalling")) as stalling,
    ):
        servers = (well, silent, stalling)
        known = {"region": "eu-central-1", "access_key_env": "ID", "secret_key_env": "KEY", "models": ("served",)}
        backends = [Bedrock(base_url=it.url, **known) for it in (*servers, gone)]
        for backend in backends:
            await backend.start("under-test", world)

        async def freed() -> None:
            for server in servers:
                await server.until(lambda it: it.answering == 0)

        yield Subject(*backends, "served", freed, {})
        for backend in backends:
            await backend.close()


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


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[pytest.param(name, marks=pytest.mark.model if name == "embedded" else ()) for name in SUBJECTS],
)
async def subject(request: pytest.FixtureRequest, surroundings: Any, serve: Any) -> AsyncIterator[Subject]:
    """Each backend that ships, started."""

    def default_model() -> Path:
        return request.getfixturevalue("default_model_path")

    opened = SUBJECTS[request.param](surroundings=surroundings, serve=serve, default_model=default_model)
    async with opened as subject:
        yield subject


@pytest.fixture
def call(subject: Subject, make_call: Any) -> Callable[..., Call]:
    """Makes calls of the subject's model, for a few tokens."""

    def make(operation: Operation = Operation.CHAT, **fields: Any) -> Call:
        return make_call(operation, model=subject.model, **{"max_tokens": TOKENS, **subject.fields, **fields})

    return make


async def test_every_backend_that_ships_is_under_test() -> None:
    """A new backend joins this suite."""
    assert set(names("backend")) == set(SUBJECTS)


async def test_its_facts_are_complete(subject: Subject) -> None:
    """A backend that serves says what it serves, and that it is up."""
    facts = subject.backend.facts()
    assert subject.model in facts.models
    assert facts.operations
    assert facts.operations <= set(Operation)
    assert facts.down is None
    assert facts.concurrency is None or facts.concurrency > 0


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "operation",
    [
        Operation.CHAT,
        Operation.COMPLETION,
        Operation.MESSAGES,
        Operation.OLLAMA_CHAT,
        Operation.OLLAMA_GENERATE,
    ],
)
async def test_it_answers(
    subject: Subject, make_call: Any, recording_sink: Any, operation: Operation, stream: bool
) -> None:
    """All endpoints that write, streamed and whole: the asked-for form, text, why it ended, and what it took."""
    subject.serves(operation)
    request = make_call(operation, model=subject.model, max_tokens=TOKENS, stream=stream, temperature=0)
    sink = recording_sink(request)
    finish = await subject.backend.send(request, sink)
    assert stream is sink.streamed
    assert sink.texts[0].strip()
    assert "length" == finish.reason
    assert TOKENS == finish.usage.output_tokens
    assert finish.usage.prompt_tokens > 0
    assert subject.model == finish.model


async def test_it_embeds_for_ollamas_clients(subject: Subject, make_call: Any, recording_sink: Any) -> None:
    """In their form, whatever stands behind it."""
    subject.serves(Operation.OLLAMA_EMBED)
    request = make_call(Operation.OLLAMA_EMBED, model=subject.model, input=["one", "two"])
    sink = recording_sink(request)
    finish = await subject.backend.send(request, sink)
    vectors = msgspec.json.decode(sink.received)["embeddings"]
    assert [True, True] == [abs(sum(number**2 for number in vector) - 1) < 1e-3 for vector in vectors]
    assert finish.usage.prompt_tokens > 0


@pytest.mark.parametrize("fields", [{}, {"keep_alive": 0}])
async def test_models_are_loaded_for_ollamas_clients(
    subject: Subject, make_call: Any, recording_sink: Any, fields: dict[str, Any]
) -> None:
    """Nobody is asked for an answer, where the backend is no server of theirs."""
    if Operation.OLLAMA_CHAT not in subject.backend.facts().translates:
        pytest.skip("it loads its models itself")
    request = make_call(Operation.OLLAMA_CHAT, model=subject.model, messages=[], **fields)
    sink = recording_sink(request)
    finish = await subject.backend.send(request, sink)
    assert ("unload" if fields else "load", 0) == (finish.reason, finish.usage.output_tokens)


async def test_it_embeds(subject: Subject, make_call: Any, recording_sink: Any) -> None:
    """A vector for each input, in order, whole; the tokens of the inputs are counted and nothing is written."""
    subject.serves(Operation.EMBEDDING)
    request = make_call(Operation.EMBEDDING, model=subject.model, input=["one", "two"], encoding_format="float")
    sink = recording_sink(request)
    finish = await subject.backend.send(request, sink)
    data = msgspec.json.decode(sink.received)["data"]
    assert [(0, "embedding"), (1, "embedding")] == [(it["index"], it["object"]) for it in data]
    assert all(abs(sum(number**2 for number in it["embedding"]) - 1) < 1e-3 for it in data)
    assert (subject.model, 0) == (finish.model, finish.usage.output_tokens)
    assert finish.usage.prompt_tokens > 0


@pytest.mark.parametrize("stream", [True, False])
async def test_it_answers_with_several_choices(subject: Subject, call: Any, recording_sink: Any, stream: bool) -> None:
    """``n`` choices are numbered from 0, and all of them are counted."""
    capabilities = subject.backend.facts().models[subject.model].capabilities
    if capabilities is not None and "many" not in capabilities:
        pytest.skip("it says that it gives one choice alone")
    request = call(stream=stream, n=2)
    sink = recording_sink(request)
    finish = await subject.backend.send(request, sink)
    assert [0, 1] == sorted(sink.texts)
    assert 2 * TOKENS == finish.usage.output_tokens


async def test_several_at_once(subject: Subject, call: Any, recording_sink: Any) -> None:
    """Calls at the same time each get their own answer."""
    requests = [call(stream=number % 2 == 0, max_tokens=number + 1) for number in range(6)]
    finishes = await asyncio.gather(*(subject.backend.send(it, recording_sink(it)) for it in requests))
    assert [1, 2, 3, 4, 5, 6] == [finish.usage.output_tokens for finish in finishes]


async def _served_again(subject: Subject, call: Any, recording_sink: Any) -> None:
    request = call()
    finish = await subject.backend.send(request, recording_sink(request))
    assert "length" == finish.reason


async def test_cancelling_in_the_middle_gives_everything_back(subject: Subject, call: Any, recording_sink: Any) -> None:
    """A stream that is cancelled after its first piece holds nothing any longer, and the next call is served."""
    request = call(stream=True, user="stalling", max_tokens=500)
    sink = recording_sink(request)
    sending = asyncio.ensure_future(subject.stalling.send(request, sink))
    await sink.pushed.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await subject.freed()
    await _served_again(subject, call, recording_sink)


@pytest.mark.parametrize("stream", [True, False])
async def test_cancelling_before_the_first_piece_gives_everything_back(
    subject: Subject, call: Any, recording_sink: Any, stream: bool
) -> None:
    """A call that is cancelled before anything came holds nothing any longer, and the next call is served."""
    request = call(stream=stream, user="silent", max_tokens=500)
    sending = asyncio.ensure_future(subject.silent.send(request, recording_sink(request)))
    for _ in range(20):
        await asyncio.sleep(0)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await subject.freed()
    await _served_again(subject, call, recording_sink)


async def test_a_client_that_is_gone_is_no_fault_of_the_backend(
    subject: Subject, call: Any, recording_sink: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the sink raises goes through as it is, and gives everything back too."""
    request = call(stream=True, user="stalling", max_tokens=500)
    sink = recording_sink(request)

    async def hang_up(_: bytes) -> None:
        raise ClientGone("hung up")

    monkeypatch.setattr(sink, "push", hang_up)
    with pytest.raises(ClientGone):
        await subject.stalling.send(request, sink)
    await subject.freed()
    await _served_again(subject, call, recording_sink)


async def test_one_that_cannot_serve_says_so(subject: Subject, call: Any, recording_sink: Any) -> None:
    """The error names the backend, may be tried elsewhere, and tells neither address nor key."""
    request = call()
    sink = recording_sink(request)
    with pytest.raises(UpstreamUnreachable) as caught:
        await subject.broken.send(request, sink)
    assert "under-test" == caught.value.backend
    assert caught.value.retryable
    assert sink.streamed is None
    assert KEY not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


async def test_closing_twice_is_closing_once(subject: Subject, call: Any, recording_sink: Any) -> None:
    """``close`` gives everything back and may be called again; afterwards there are facts, and no service."""
    await subject.broken.close()
    await subject.broken.close()
    assert subject.model in subject.broken.facts().models
    request = call()
    with pytest.raises(UpstreamUnreachable):
        await subject.broken.send(request, recording_sink(request))
