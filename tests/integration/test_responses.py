"""The official ``openai`` package on ``/v1/responses``: over a chat upstream, over another gateway, over the engine."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import openai
import pytest

WORDS = "one two three four five"
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture(params=["translated", "passed through"])
async def front(request: pytest.FixtureRequest, start_gateway: Callable[..., Awaitable[Any]]) -> Any:
    """A gateway that answers ``WORDS``: out of a chat, or as another gateway's response comes in."""
    fake = await start_gateway({"backends": {"made-up": {"use": "fake", "text": WORDS}}})
    if request.param == "translated":
        return fake
    upstream = {
        "use": "openai_compatible",
        "base_url": fake.url,
        "models": ["fake"],
        "operations": ["chat", "response"],
    }
    return await start_gateway({"backends": {"second": upstream}})


async def test_a_whole_response(front: Any) -> None:
    """It parses, with its text, its status and its usage."""
    response = await front.openai().responses.create(model="fake", input="Say a few words.", instructions="Be brief.")
    assert (WORDS, "completed", "Be brief.") == (response.output_text, response.status, response.instructions)
    assert 5 == response.usage.output_tokens


async def test_a_streamed_response(front: Any) -> None:
    """Deltas add up to the text, and the last event has the whole response."""
    async with front.openai().responses.stream(model="fake", input="Say a few words.") as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    assert WORDS == "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert ("response.created", "response.completed") == (events[0].type, events[-1].type)
    assert WORDS == final.output_text


async def test_a_conversation_goes_on_and_is_forgotten(front: Any) -> None:
    """By the name of an earlier answer, which can be read, listed and deleted."""
    client = front.openai()
    first = await client.responses.create(model="fake", input="Hello.")
    second = await client.responses.create(model="fake", input="And now?", previous_response_id=first.id)
    assert first.id == second.previous_response_id
    kept = await client.responses.retrieve(second.id)
    assert (second.id, WORDS) == (kept.id, kept.output_text)
    items = [item async for item in client.responses.input_items.list(second.id, order="asc")]
    assert ["user", "assistant", "user"] == [item.role for item in items]
    await client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(first.id)
    with pytest.raises(openai.BadRequestError) as caught:
        await client.responses.create(model="fake", input="And now?", previous_response_id=first.id)
    assert "previous_response_not_found" == caught.value.code
    with pytest.raises(openai.BadRequestError):
        await client.responses.cancel(second.id)


async def test_there_is_no_compaction(front: Any) -> None:
    """Who asks for it is told that there is no such route."""
    response = await front.post({"model": "fake", "input": "hi"}, path="/v1/responses/compact")
    assert (404, "not_found") == (response.status_code, response.json()["error"]["code"])


async def test_what_is_not_stored_cannot_be_read(front: Any) -> None:
    """``store: false`` leaves nothing behind."""
    client = front.openai()
    response = await client.responses.create(model="fake", input="Hello.", store=False)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(response.id)


@pytest.mark.parametrize(
    ("field", "param"),
    [
        ({"input": []}, "input"),
        ({"background": True}, "background"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"extra_body": {"api_base": "http://elsewhere"}}, "api_base"),
    ],
)
async def test_a_mistake_is_told_as_openai_tells_it(front: Any, field: dict[str, Any], param: str) -> None:
    """The envelope that its client raises on, with the field by name."""
    with pytest.raises(openai.BadRequestError) as caught:
        await front.openai().responses.create(**{"model": "fake", "input": "hi", **field})
    assert param == caught.value.param


async def test_what_a_chat_cannot_carry_is_refused_by_name(start_gateway: Callable[..., Awaitable[Any]]) -> None:
    """A tool that only its provider can run, which has to be called."""
    fake = await start_gateway({"backends": {"made-up": {"use": "fake", "text": WORDS}}})
    tool = {"type": "web_search"}
    with pytest.raises(openai.BadRequestError) as caught:
        await fake.openai().responses.create(model="fake", input="hi", tools=[tool], tool_choice=tool)
    assert "tool_choice" == caught.value.param


async def test_a_tool_that_is_merely_offered_is_left_out_and_named(
    start_gateway: Callable[..., Awaitable[Any]],
) -> None:
    """The model cannot call it; the header says so."""
    fake = await start_gateway({"backends": {"made-up": {"use": "fake", "text": WORDS}}})
    ask = {"model": "fake", "input": "hi", "tools": [{"type": "web_search"}, TOOL]}
    response = await fake.openai().responses.with_raw_response.create(**ask)
    assert ("tools[0]", WORDS) == (response.headers["x-headrace-dropped"], response.parse().output_text)


async def test_a_websocket_is_refused_at_once(front: Any) -> None:
    """Clients that try for one fall back to events."""
    headers = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13", "sec-websocket-key": "x"}
    async with httpx.AsyncClient() as client:
        response = await client.get(f"{front.url}/responses", headers=headers)
    assert (426, "upgrade_refused") == (response.status_code, response.json()["error"]["code"])


async def test_a_failure_in_the_middle_is_the_last_event(start_gateway: Callable[..., Awaitable[Any]]) -> None:
    """After the first text there is no second try, and no end that looks like one."""
    failing = {"use": "fake", "text": WORDS, "fail": [{"kind": "cut", "after_chunks": 3}]}
    gateway = await start_gateway({"backends": {"made-up": failing}})
    events = [e async for e in await gateway.openai().responses.create(model="fake", input="hi", stream=True)]
    assert "response.output_text.delta" in [event.type for event in events]
    assert ("error", "upstream_truncated") == (events[-1].type, events[-1].code)


@pytest.mark.model
async def test_the_engine_answers(start_gateway: Callable[..., Awaitable[Any]], default_model_path: Any) -> None:
    """The real model: streamed and whole, with a schema that its answer keeps to, and a tool that it has to call."""
    local = {"use": "embedded", "model": str(default_model_path), "context_tokens": 1024, "threads": 1}
    gateway = await start_gateway({"backends": {"local": local}})
    client, model = gateway.openai(), "any"
    shape = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    schema = {"type": "json_schema", "name": "count", "schema": shape, "strict": True}
    counted = await client.responses.create(
        model=model, input="How many legs has a cat?", text={"format": schema}, max_output_tokens=60, temperature=0
    )
    assert {"n"} == json.loads(counted.output_text).keys()
    called = await client.responses.create(
        model=model, input="Look around.", tools=[TOOL], tool_choice="required", max_output_tokens=60, temperature=0
    )
    assert [("function_call", "look")] == [(item.type, item.name) for item in called.output]
    stream = await client.responses.create(model=model, input="Say hello.", max_output_tokens=5, stream=True)
    (*_, last) = [event async for event in stream]
    assert ("response.incomplete", "max_output_tokens") == (last.type, last.response.incomplete_details.reason)
