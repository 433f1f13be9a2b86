"""What every backend does, whatever stands behind it: one suite over all of them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from gateway.errors import ClientGone, UpstreamUnreachable
from gateway.rules.plugins import names
from gateway.types import Call, Operation
from tests.contract.backends_under_test import KEY, SUBJECTS, Subject

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOKENS = 6


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
