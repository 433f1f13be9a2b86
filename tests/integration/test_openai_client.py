"""The official ``openai`` package against the real server: over a fake backend, and over a second gateway."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import msgspec
import openai
import pytest

ASK = {"model": "fake", "messages": [{"role": "user", "content": "Say a few words."}]}
WORDS = "one two three four five"


@pytest.fixture(params=["over a fake backend", "over a second gateway"])
async def front(request: pytest.FixtureRequest, start_gateway: Callable[..., Awaitable[Any]]) -> Any:
    """A gateway that answers ``WORDS``, by itself or through another."""
    fake = await start_gateway({"backends": {"made-up": {"use": "fake", "text": WORDS}}})
    if request.param == "over a fake backend":
        return fake
    upstream = {"use": "openai_compatible", "base_url": fake.url, "models": ["fake"]}
    return await start_gateway({"backends": {"second": upstream}})


@pytest.fixture
async def echo(serve: Any, start_gateway: Callable[..., Awaitable[Any]]) -> Any:
    """A gateway over an upstream that answers with the body it got, as its text."""

    async def respond(request: Any, conversation: Any) -> None:
        message = {"role": "assistant", "content": request.body.decode()}
        choice = {"index": 0, "message": message, "logprobs": {"content": []}, "finish_reason": "stop"}
        answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        await conversation.answer(msgspec.json.encode(answer))

    async with serve(respond) as upstream:
        yield await start_gateway({"backends": {"echo": {"use": "openai_compatible", "base_url": upstream.url}}})


async def test_whole_answer(front: Any) -> None:
    """A whole answer parses, with its text, its reason and its usage."""
    answer = await front.openai().chat.completions.create(**ASK)
    assert (WORDS, "stop") == (answer.choices[0].message.content, answer.choices[0].finish_reason)
    assert 5 == answer.usage.completion_tokens
    assert answer._request_id.startswith("req_")


async def test_streamed_answer(front: Any) -> None:
    """A streamed answer puts together to the same text, ends once, and shows no usage that nobody asked for."""
    chunks = [chunk async for chunk in await front.openai().chat.completions.create(**ASK, stream=True)]
    assert WORDS == "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert ["stop"] == [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason]
    assert not any(chunk.usage for chunk in chunks)


async def test_usage_in_a_stream_when_asked(front: Any) -> None:
    """``stream_options`` brings one last chunk with usage and no choices."""
    options = {"include_usage": True}
    chunks = [c async for c in await front.openai().chat.completions.create(**ASK, stream=True, stream_options=options)]
    assert [] == chunks[-1].choices
    assert 5 == chunks[-1].usage.completion_tokens
    assert all(chunk.choices and chunk.usage is None for chunk in chunks[:-1])


@pytest.mark.parametrize("stream", [False, True])
async def test_two_choices(front: Any, stream: bool) -> None:
    """``n=2`` gives two whole choices, streamed or not."""
    answer = await front.openai().chat.completions.create(**ASK, n=2, stream=stream)
    texts = {0: "", 1: ""}
    for choice in [c for chunk in [c async for c in answer] for c in chunk.choices] if stream else answer.choices:
        texts[choice.index] += (choice.delta.content or "") if stream else choice.message.content
    assert {0: WORDS, 1: WORDS} == texts


async def test_two_at_once(front: Any) -> None:
    """Requests at the same time get their own answers."""
    client = front.openai()
    limits = [1, 2, 3, 4]
    answers = await asyncio.gather(*[client.chat.completions.create(**ASK, max_tokens=limit) for limit in limits])
    assert limits == [answer.usage.completion_tokens for answer in answers]


async def test_legacy_completions(front: Any) -> None:
    """The legacy endpoint answers whole and streamed."""
    client = front.openai()
    whole = await client.completions.create(model="fake", prompt="Once")
    stream = await client.completions.create(model="fake", prompt="Once", stream=True)
    assert WORDS == whole.choices[0].text
    assert WORDS == "".join([chunk.choices[0].text async for chunk in stream])


async def test_models(front: Any) -> None:
    """Models are listed, and each can be asked for by its name."""
    client = front.openai()
    assert ["fake"] == [model.id async for model in client.models.list()]
    assert "fake" == (await client.models.retrieve("fake")).id
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("nobody/has-this")


async def test_synchronous_client(front: Any) -> None:
    """The synchronous client works the same, whole and streamed."""

    def ask() -> tuple[str, str]:
        with openai.OpenAI(base_url=front.url, api_key="any", max_retries=0) as client:
            whole = client.chat.completions.create(**ASK).choices[0].message.content
            stream = client.chat.completions.create(**ASK, stream=True)
            return whole, "".join(chunk.choices[0].delta.content or "" for chunk in stream)

    assert (WORDS, WORDS) == await asyncio.to_thread(ask)


async def test_cancel_in_mid_stream(start_gateway: Any, eventually: Any) -> None:
    """Leaving a stream ends it at the fake behind the second gateway, and the client goes on with another request."""
    fake = await start_gateway(
        {"backends": {"made-up": {"use": "fake", "tokens": 100_000, "seconds_per_token": 0.001}}}
    )
    front = await start_gateway({"backends": {"second": {"use": "openai_compatible", "base_url": fake.url}}})
    client = front.openai()
    async with await client.chat.completions.create(**ASK, stream=True) as stream:
        await anext(aiter(stream))
    await eventually(lambda: fake.backend("made-up").closed_calls == 1)
    answer = await client.chat.completions.create(**ASK, max_tokens=3)
    assert 3 == answer.usage.completion_tokens
    assert ["client_gone", "ok"] == [row["status"] for row in await front.rows()]
    assert ["client_gone", "ok"] == [row["status"] for row in await fake.rows()]


async def test_fields_that_the_gateway_does_not_use_reach_the_upstream(echo: Any) -> None:
    """Tools, formats, logprobs, and fields that nobody has heard of arrive as they were written."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": True}}
    sent = {
        "tools": [tool],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": False,
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}},
        "logprobs": True,
        "top_logprobs": 2,
    }
    answer = await echo.openai().chat.completions.create(**ASK, **sent, extra_body={"of_next_year": [1]})
    assert {**ASK, **sent, "of_next_year": [1]} == json.loads(answer.choices[0].message.content)
    assert [] == answer.choices[0].logprobs.content


async def test_wrong_key_is_an_authentication_error(start_gateway: Any) -> None:
    """An unknown key is the client's ``AuthenticationError``; the right one is let in."""
    front = await start_gateway({"locked": True})
    with pytest.raises(openai.AuthenticationError) as caught:
        await front.openai(api_key="sk-nobody").chat.completions.create(**ASK)
    assert "invalid_api_key" == caught.value.code
    assert await front.openai().chat.completions.create(**ASK)


@pytest.mark.parametrize(
    ("fields", "cls", "code", "param"),
    [
        ({"temperature": -1}, openai.BadRequestError, "invalid_request", "temperature"),
        ({"messages": []}, openai.BadRequestError, "invalid_request", "messages"),
        ({"model": "unknown"}, openai.NotFoundError, "model_not_found", "model"),
    ],
)
async def test_client_errors_are_the_packages_own(
    start_gateway: Any, fields: dict[str, Any], cls: type[openai.APIStatusError], code: str, param: str
) -> None:
    """What is wrong with a request arrives as the package's own class, with code and param."""
    front = await start_gateway({"routes": {"only": {"models": ["fake"], "targets": ["made-up"]}}})
    with pytest.raises(cls) as caught:
        await front.openai().chat.completions.create(**{**ASK, **fields})
    assert (code, param) == (caught.value.code, caught.value.param)


@pytest.mark.parametrize(
    ("status", "cls"),
    [
        (429, openai.RateLimitError),
        (400, openai.BadRequestError),
        (422, openai.UnprocessableEntityError),
        (500, openai.InternalServerError),
    ],
)
async def test_upstream_errors_are_the_packages_own(
    start_gateway: Any, status: int, cls: type[openai.APIError]
) -> None:
    """An upstream's refusal arrives as the class that its status stands for."""
    backend = {"use": "fake", "fail": [{"kind": "status", "status": status}]}
    front = await start_gateway({"backends": {"moody": backend}})
    with pytest.raises(cls):
        await front.openai().chat.completions.create(**ASK)


async def test_error_inside_a_stream_is_raised_after_what_came_before(start_gateway: Any) -> None:
    """The deltas before an error in a stream arrive; then the package raises, with the upstream's words."""
    backend = {"use": "fake", "text": WORDS, "fail": [{"kind": "error", "after_chunks": 2}]}
    front = await start_gateway({"backends": {"moody": backend}})
    chunks = aiter(await front.openai().chat.completions.create(**ASK, stream=True))
    texts = [(await anext(chunks)).choices[0].delta.content for _ in range(3)]
    assert ["", "one", " two"] == texts
    with pytest.raises(openai.APIError, match="made up"):
        await anext(chunks)


async def test_impatient_client_times_out(start_gateway: Any, eventually: Any) -> None:
    """A client that gives up raises ``APITimeoutError``, and its upstream call ends with it."""
    front = await start_gateway({"backends": {"slow": {"use": "fake", "fail": [{"kind": "hang"}]}}})
    with pytest.raises(openai.APITimeoutError):
        await front.openai(timeout=0.1).chat.completions.create(**ASK)
    await eventually(lambda: front.backend("slow").closed_calls == 1)


async def test_retrying_client_gets_its_answer(start_gateway: Any) -> None:
    """A client that retries, as the package does by default, is served after an overload that says when."""
    fail = [{"kind": "status", "status": 503}]
    front = await start_gateway({"backends": {"moody": {"use": "fake", "text": WORDS, "fail": fail}}})
    answer = await front.openai(max_retries=1).chat.completions.create(**ASK)
    assert WORDS == answer.choices[0].message.content
    assert ["upstream_failed", "ok"] == [row["status"] for row in await front.rows()]


CAPTURED = [
    pytest.param(b'{"messages":[{"role":"user","content":"hi"}],"model":"mock-model"}', id="openai-python"),
    pytest.param(b'{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}', id="openai-node"),
    pytest.param(
        b'{"messages":[{"content":"hi","role":"user"}],"model":"m","stream":false,"temperature":0.1}', id="llama-index"
    ),
    pytest.param(
        b'{"messages":[{"role":"user","content":"hi"}],"model":"m","tool_choice":{"type":"function","function":{"name":'
        b'"P"}},"tools":[{"type":"function","function":{"name":"P","description":"d","parameters":{"properties":'
        b'{"name":{"title":"Name","type":"string"}},"required":["name"],"type":"object"}}}]}',
        id="instructor",
    ),
    pytest.param(
        b'{"model":"m","max_tokens":32000,"messages":[{"role":"system","content":"s"},{"role":"system","content":"t"},'
        b'{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}',
        id="opencode",
    ),
]


@pytest.mark.parametrize("body", CAPTURED)
async def test_bodies_that_clients_in_the_field_send(running: Any, body: bytes) -> None:
    """Requests in the shape that well-known clients send are served."""
    headers = {
        "authorization": "Bearer any",
        "content-type": "application/json",
        "x-stainless-lang": "python",
        "x-stainless-retry-count": "0",
        "accept-language": "*",
        "sec-fetch-mode": "cors",
        "x-session-affinity": "ses_1",
        "accept-encoding": "gzip, deflate, br, zstd",
    }
    response: httpx.Response = await running.post(body, headers=headers)
    assert 200 == response.status_code
    assert "content-encoding" not in response.headers
    assert b"made up" in response.content or b" made" in response.content
