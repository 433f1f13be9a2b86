"""The official ``anthropic`` package against the real server, over every way that an answer may take."""

from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import httpx
import pytest

from tests.anthropic_answers import checked_error, checked_events, checked_message

WORDS = "one two three four five"
ASK = {"model": "fake", "max_tokens": 20, "messages": [{"role": "user", "content": "Say a few words."}]}
WAYS = ["over a fake backend", "over a server of OpenAI's chat", "over a server of Anthropic's messages"]


@pytest.fixture(params=WAYS)
async def front(request: pytest.FixtureRequest, start_gateway: Callable[..., Awaitable[Any]]) -> Any:
    """A gateway that answers ``WORDS``, by itself or through another."""
    fake = await start_gateway({"backends": {"made-up": {"use": "fake", "text": WORDS}}})
    if request.param == WAYS[0]:
        return fake
    kind = "openai_compatible" if request.param == WAYS[1] else "anthropic"
    return await start_gateway({"backends": {"second": {"use": kind, "base_url": fake.url, "models": ["fake"]}}})


async def test_whole_answer(front: Any) -> None:
    """A whole answer parses, with its text, its reason, its usage and its id."""
    answer = await front.anthropic().messages.create(**ASK)
    assert (WORDS, "end_turn", "fake") == (answer.content[0].text, answer.stop_reason, answer.model)
    assert (5, True) == (answer.usage.output_tokens, answer.usage.input_tokens > 0)
    assert answer._request_id.startswith("req_")


async def test_streamed_answer(front: Any) -> None:
    """A streamed answer adds up to the same message, word by word."""
    async with front.anthropic().messages.stream(**ASK) as stream:
        words = [text async for text in stream.text_stream]
        answer = await stream.get_final_message()
    assert (WORDS, True) == ("".join(words), len(words) > 1)
    assert (WORDS, "end_turn", 5) == (answer.content[0].text, answer.stop_reason, answer.usage.output_tokens)
    assert answer.usage.input_tokens > 0


async def test_every_byte_is_of_the_official_types(front: Any) -> None:
    """Whole and streamed, and the stream's events come in the order that clients count on."""
    checked_message((await front.post(ASK, path="/v1/messages")).content)
    events = checked_events((await front.post({**ASK, "stream": True}, path="/v1/messages?beta=true")).content)
    assert "ping" in {event["type"] for event in events}


async def test_the_bound_is_a_reason_to_end(front: Any) -> None:
    """``max_tokens`` cuts the answer, and the reason says so."""
    answer = await front.anthropic().messages.create(**{**ASK, "max_tokens": 2})
    assert ("one two", "max_tokens") == (answer.content[0].text, answer.stop_reason)


async def test_tokens_are_counted(front: Any) -> None:
    """Before anything is asked; nothing is generated for it, and nothing is charged."""
    raw = await front.anthropic().messages.with_raw_response.count_tokens(model="fake", messages=ASK["messages"])
    assert (await raw.parse()).input_tokens > 0
    assert raw.headers["request-id"].startswith("req_")
    assert raw.headers.get("x-headrace-cost-usd", "0") == "0"


async def test_models_are_listed(front: Any) -> None:
    """As Anthropic lists them; each can be asked for alone."""
    client = front.anthropic()
    page = await client.models.list(limit=1000)
    assert [("fake", "model")] == [(card.id, card.type) for card in page.data]
    assert "fake" == (await client.models.retrieve("fake")).display_name
    with pytest.raises(anthropic.NotFoundError):
        await client.models.retrieve("none")


REFUSALS = [
    ({"max_tokens": None}, 400, "invalid_request_error"),
    ({"messages": []}, 400, "invalid_request_error"),
    ({"messages": [{"role": "tool", "content": "x"}]}, 400, "invalid_request_error"),
    ({"max_tokens": "7"}, 400, "invalid_request_error"),
]


@pytest.mark.parametrize(("fields", "status", "kind"), REFUSALS)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_refusal_has_anthropics_shape(
    front: Any, fields: dict[str, Any], status: int, kind: str, stream: bool
) -> None:
    """The official client raises its own class, whose words name the field."""
    answer = await front.post({**ASK, "stream": stream, **fields}, path="/v1/messages")
    error = checked_error(answer.content)
    assert (status, kind) == (answer.status_code, error["type"])
    assert next(iter(fields)) in error["message"]
    assert answer.headers["request-id"] == answer.headers["x-request-id"]


async def test_both_kinds_of_key_open(start_gateway: Callable[..., Awaitable[Any]]) -> None:
    """``x-api-key`` and ``Authorization: Bearer``; a wrong one is an authentication error."""
    gateway = await start_gateway({"locked": True})
    assert (await gateway.anthropic().messages.create(**ASK)).content
    assert (await gateway.anthropic(api_key=None, auth_token="sk-acme-0123456789").messages.create(**ASK)).content
    with pytest.raises(anthropic.AuthenticationError) as caught:
        await gateway.anthropic(api_key="sk-wrong").messages.create(**ASK)
    assert "authentication_error" == checked_error(caught.value.response.content)["type"]


async def test_paths_that_are_none_say_so_in_anthropics_shape(start_gateway: Callable[..., Awaitable[Any]]) -> None:
    """By the path, or by the header that Anthropic's clients send."""
    gateway = await start_gateway({})
    wrong_method: httpx.Response = await gateway.http.get("/v1/messages")
    nowhere = await gateway.http.get("/v1/nowhere", headers={"anthropic-version": "2023-06-01"})
    assert (405, "invalid_request_error") == (wrong_method.status_code, checked_error(wrong_method.content)["type"])
    assert (404, "not_found_error") == (nowhere.status_code, checked_error(nowhere.content)["type"])


async def test_a_chat_client_of_anthropic(start_gateway: Callable[..., Awaitable[Any]]) -> None:
    """OpenAI's client over a server that speaks nothing but Anthropic's format, streamed and whole."""
    fake = await start_gateway({"backends": {"made-up": {"use": "fake", "text": WORDS}}})
    backend = {"use": "anthropic", "base_url": fake.url, "models": ["fake"]}
    client = (await start_gateway({"backends": {"claude": backend}})).openai()
    ask = {"model": "fake", "messages": ASK["messages"]}
    whole = await client.chat.completions.create(**ask)
    assert (WORDS, "stop", 5) == (
        whole.choices[0].message.content,
        whole.choices[0].finish_reason,
        whole.usage.completion_tokens,
    )
    options = {"include_usage": True}
    chunks = [it async for it in await client.chat.completions.create(**ask, stream=True, stream_options=options)]
    assert WORDS == "".join(it.choices[0].delta.content or "" for it in chunks if it.choices)
    assert (5, ["stop"]) == (
        chunks[-1].usage.completion_tokens,
        [it.choices[0].finish_reason for it in chunks if it.choices and it.choices[0].finish_reason],
    )
    with pytest.raises(Exception, match="seed"):
        await client.chat.completions.create(**ask, seed=7)
