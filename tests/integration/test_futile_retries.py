"""What the official SDKs do when asking again cannot help: nothing, though the status is one that they retry."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import msgspec
import openai
import pytest

from gateway.errors import UpstreamRateLimited
from gateway.fleet.cooling import cooling_key, rest_after

NOT_FOUND = 404
REST_S = {401: 60, 402: 900}
TURNS = [{"role": "user", "content": "hi"}]
CALLS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "chat": lambda client: client.chat.completions.create(model="m", messages=TURNS),
    "streamed chat": lambda client: client.chat.completions.create(model="m", messages=TURNS, stream=True),
    "completion": lambda client: client.completions.create(model="m", prompt="hi"),
    "embedding": lambda client: client.embeddings.create(model="m", input="hi"),
    "response": lambda client: client.responses.create(model="m", input="hi"),
    "messages": lambda client: client.messages.create(model="m", max_tokens=9, messages=TURNS),
}


@pytest.fixture
async def refused(serve: Any, start_gateway: Callable[..., Awaitable[Any]]) -> Any:
    """Starts a gateway over upstreams of which each answers with a status of its own."""

    async def start(*statuses: int) -> Any:
        backends = {}
        for number, status in enumerate(statuses):

            async def respond(_: Any, conversation: Any, status: int = status) -> None:
                code = "model_not_found" if status == NOT_FOUND else "invalid_api_key"
                error = {"message": "no", "type": "invalid_request_error", "code": code}
                await conversation.answer(msgspec.json.encode({"error": error}), status=status)

            upstream = await stack.enter_async_context(serve(respond))
            backends[f"number-{number}"] = {"use": "openai_compatible", "base_url": upstream.url}
        return await start_gateway({"backends": backends})

    async with contextlib.AsyncExitStack() as stack:
        yield start


async def asked(running: Any, call: str) -> tuple[int, Any]:
    """How many requests its SDK sends for one call, with two retries allowed, and the error in the end."""
    client = (running.anthropic if call == "messages" else running.openai)(max_retries=2)
    client._calculate_retry_timeout = lambda *_: 0.0
    sent: list[Any] = []

    async def note(request: Any) -> None:
        sent.append(request)

    client._client.event_hooks = {"request": [note]}
    with pytest.raises((openai.InternalServerError, anthropic.InternalServerError)) as raised:
        await CALLS[call](client)
    return len(sent), raised.value


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("status", [401, 402, 403, 404])
async def test_a_key_that_an_upstream_refuses_is_asked_about_once(refused: Any, call: str, status: int) -> None:
    """The key is the gateway's, and only people mend it: a 502, for the client's own key is good, and no retry."""
    requests, error = await asked(await refused(status), call)
    assert (1, 502, "false") == (requests, error.status_code, error.response.headers["x-should-retry"])
    assert "invalid_api_key" not in str(error.body)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("status", [401, 402])
async def test_while_a_refused_key_rests_nobody_asks_twice_either(refused: Any, call: str, status: int) -> None:
    """Its time is told, and that coming back by oneself is no use: people mend a key, not seconds."""
    running = await refused(status)
    await asked(running, call)
    requests, error = await asked(running, call)
    headers = error.response.headers
    assert (1, 503, "false") == (requests, error.status_code, headers["x-should-retry"])
    assert 0 < int(headers["retry-after"]) <= REST_S[status]


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
@pytest.mark.parametrize("stream", [True, False])
async def test_clients_of_ollama_read_it_too(refused: Any, path: str, stream: bool) -> None:
    """The same header in every format, whole and streamed."""
    running = await refused(401)
    asked_for = {"model": "m", "messages": TURNS} if path == "/api/chat" else {"model": "m", "prompt": "hi"}
    answers = [await running.post({**asked_for, "stream": stream}, path=path) for _ in range(2)]
    assert [(502, "false"), (503, "false")] == [(one.status_code, one.headers["x-should-retry"]) for one in answers]


@pytest.mark.parametrize("call", ["chat", "messages"])
@pytest.mark.parametrize("statuses", [(500,), (401, 500), (500, 401)])
async def test_where_one_may_do_better_the_sdk_asks_again(refused: Any, call: str, statuses: tuple[int, ...]) -> None:
    """Whichever failed last: one of them was only ill."""
    running = await refused(*statuses)
    requests, error = await asked(running, call)
    assert (3, None) == (requests, error.response.headers.get("x-should-retry"))


async def test_one_that_rests_for_a_reason_that_passes_may_do_better(refused: Any) -> None:
    """It was not asked this time, and is back before anybody mends the other's key."""
    running = await refused(429, 401)
    shared = running.gateway._fleet.cooldowns._shared
    shared.put(cooling_key("number-0", ""), rest_after(UpstreamRateLimited), 9.0)
    answer = await running.post()
    assert (502, None) == (answer.status_code, answer.headers.get("x-should-retry"))
