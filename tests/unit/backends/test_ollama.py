"""Ollama's own API: what its parameters mean, and what it says of itself."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from backends._listed_card import ListedCard
from backends._models import ListedModel
from backends.ollama import Ollama
from gateway.errors import UpstreamFailed, UpstreamRefused
from gateway.types import Operation

ANSWER = {"model": "m", "message": {"role": "assistant", "content": "hi"}, "done": True, "eval_count": 1}


def test_nothing_is_needed() -> None:
    """This machine's usual port, no key; its models cost nothing, since the machine is paid for."""
    backend = Ollama()
    facts = backend.facts()
    assert ("http://127.0.0.1:11434", True, {}) == (backend._address, facts.discovered, facts.models)
    assert 0 == facts.unlisted.price.input_usd_per_mtok
    assert facts is backend.facts()
    assert {
        Operation.OLLAMA_CHAT,
        Operation.OLLAMA_GENERATE,
        Operation.OLLAMA_EMBED,
        Operation.OLLAMA_EMBEDDINGS,
    } == facts.operations - facts.translates
    assert {Operation.CHAT, Operation.COMPLETION, Operation.EMBEDDING} < facts.translates


def test_what_somebody_else_serves_has_a_price_of_its_own() -> None:
    """A key is a sign of that."""
    assert Ollama(base_url="https://ollama.com", api_key_env="OLLAMA_API_KEY").facts().unlisted.price is None


def test_what_the_policy_file_says_goes_before() -> None:
    """Model by model."""
    listed = ListedModel(context_tokens=8, capabilities=frozenset({"tools"}), card=ListedCard(precision="bf16"))
    facts = Ollama(models={"own": listed, "plain": None}, card=ListedCard(engine="ollama 0.13")).facts()
    assert (8, {"tools"}, "bf16", "ollama 0.13") == (
        facts.models["own"].context_tokens,
        facts.models["own"].capabilities,
        facts.models["own"].card.precision,
        facts.models["own"].card.engine,
    )
    assert (False, "ollama 0.13") == (facts.discovered, facts.models["plain"].card.engine)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"num_ctx": -1}, "`num_ctx`"),
        ({"refresh_s": -1}, "`refresh_s`"),
        ({"concurrency": 0}, "`concurrency`"),
        ({"base_url": "ftp://x"}, "base_url"),
        ({"models": ("a", "a")}, "names one twice"),
    ],
)
def test_what_cannot_be_is_refused(parameters: dict[str, Any], words: str) -> None:
    """When the policy file is read, in words."""
    with pytest.raises(ValueError, match=words):
        Ollama(**parameters)


@pytest.fixture
async def upstream(serve: Any) -> AsyncIterator[Any]:
    """A server that answers as Ollama does, or refuses what is called so."""

    async def respond(request: Any, conversation: Any) -> None:
        if request.json["model"] == "bad":
            await conversation.answer(b'{"error":"does not support thinking"}', status=400)
        elif request.json["model"] == "broken":
            await conversation.answer(b'{"error":"llama runner process has terminated"}', status=500)
        else:
            await conversation.answer(json.dumps(ANSWER).encode())

    async with serve(respond) as upstream:
        yield upstream


@pytest.fixture
async def started(upstream: Any, surroundings: Any) -> AsyncIterator[Callable[..., Any]]:
    """Starts backends at the server's address."""
    backends = []

    async def start(**parameters: Any) -> Ollama:
        backend = Ollama(base_url=upstream.url.removesuffix("/v1"), refresh_s=0, **parameters)
        await backend.start("local", surroundings(KEY="secret"))
        backends.append(backend)
        return backend

    yield start
    for backend in backends:
        await backend.close()


async def test_what_goes_up_is_ollamas(started: Any, upstream: Any, make_call: Any, recording_sink: Any) -> None:
    """With the window and the stay in memory that the policy file wants, and the key as a bearer."""
    backend = await started(num_ctx=8192, keep_alive="10m", api_key_env="KEY", headers={"x-team": "search"})
    call = make_call(model="m", seed=7)
    assert "stop" == (await backend.send(call, recording_sink(call))).reason
    (request,) = upstream.requests
    headers = dict(request.headers)
    assert ("/api/chat", "Bearer secret", "search") == (request.path, headers["authorization"], headers["x-team"])
    assert ({"seed": 7, "num_ctx": 8192}, "10m") == (request.json["options"], request.json["keep_alive"])


async def test_ollamas_own_body_goes_up_as_it_came(
    started: Any, upstream: Any, make_call: Any, recording_sink: Any
) -> None:
    """Our wishes are for those who have none."""
    backend = await started(num_ctx=8192, keep_alive="10m")
    call = make_call(Operation.OLLAMA_CHAT, model="m", stream=False, future=1)
    await backend.send(call, recording_sink(call))
    assert {"model", "messages", "stream", "future"} == upstream.requests[0].json.keys()


@pytest.mark.parametrize(("model", "error", "status"), [("bad", UpstreamRefused, 400), ("broken", UpstreamFailed, 500)])
async def test_errors_are_told_by_their_status(
    started: Any, make_call: Any, recording_sink: Any, model: str, error: type[Exception], status: int
) -> None:
    """Ollama has a sentence for people and nothing for programs."""
    backend, call = await started(), make_call(model=model)
    with pytest.raises(error) as caught:
        await backend.send(call, recording_sink(call))
    assert ("local", status) == (caught.value.backend, caught.value.upstream_status)
