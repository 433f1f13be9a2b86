"""The real model behind the real server, asked by the official client."""

import asyncio
from typing import Any

import openai
import pytest
import pytest_asyncio

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]

MESSAGES = [{"role": "user", "content": "Tell me a story about a river, an old bridge and a letter."}]
GREEDY = {"model": "any", "messages": MESSAGES, "temperature": 0, "max_tokens": 28}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def front(start_shared_gateway: Any, default_model_path: Any) -> Any:
    """A gateway over the embedded model with two slots, whose port opens when it is ready."""
    backend = {"use": "embedded", "model": str(default_model_path), "slots": 2, "context_tokens": 512, "threads": 1}
    front = await start_shared_gateway({"backends": {"local": backend}})
    assert 200 == (await front.http.get("/readyz")).status_code
    return front


async def _whole(client: Any, **fields: Any) -> tuple[str, str, int]:
    answer = await client.chat.completions.create(**{**GREEDY, **fields})
    return answer.choices[0].message.content, answer.choices[0].finish_reason, answer.usage.completion_tokens


async def _streamed(client: Any, **fields: Any) -> tuple[str, str, int]:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = [chunk async for chunk in await client.chat.completions.create(**{**GREEDY, **options, **fields})]
    choices = [choice for chunk in chunks for choice in chunk.choices]
    (reason,) = [choice.finish_reason for choice in choices if choice.finish_reason]
    return "".join(choice.delta.content or "" for choice in choices), reason, chunks[-1].usage.completion_tokens


async def test_stop_strings_are_cut_the_same_way_streamed_and_whole(front: Any) -> None:
    """No part of a stop string that matched is seen, all of one that did not is; both modes agree."""
    client = front.openai()
    text, reason, tokens = await _whole(client)
    assert ("length", 28) == (reason, tokens)
    assert (text, reason, tokens) == await _streamed(client)
    long = text[40:80]
    assert text.find(long) == 40
    stops: dict[str, Any] = {
        "of many tokens": (long, text[:40], "stop"),
        "in a list": (["\x00never", long], text[:40], "stop"),
        "one inside another: the first that is whole": ([long, long[5:15]], text[:45], "stop"),
        "only begun at the end": (text[-6:] + "\x00", text, "length"),
        "only begun in the middle": (long[:20] + "\x00", text, "length"),
    }
    for name, (stop, expected, ended) in stops.items():
        whole, streamed = await _whole(client, stop=stop), await _streamed(client, stop=stop)
        assert whole == streamed, name
        assert (expected, ended) == whole[:2], name
        assert whole[2] <= 28, name


async def test_several_at_once_get_their_own_answers(front: Any) -> None:
    """Requests that share the engine, streamed and whole, chat and completion, get their own answers."""
    client = front.openai()
    forms = [{"extra_body": {"structured_outputs": {"choice": [f"{number} bridges"]}}} for number in range(3)]
    together = await asyncio.gather(
        *(_whole(client, **form) for form in forms),
        *(_streamed(client, **form) for form in forms),
        client.completions.create(
            model="any", prompt="Once upon a time", max_tokens=4, extra_body={"ignore_eos": True}
        ),
    )
    assert [f"{number} bridges" for number in range(3)] * 2 == [answer[0] for answer in together[:6]]
    assert 4 == together[6].usage.completion_tokens


async def test_leaving_frees_the_engine(front: Any, eventually: Any) -> None:
    """A client that leaves in the middle, streamed or whole, frees its slot for the next one."""
    client = front.openai()
    endless = {**GREEDY, "max_tokens": 400}
    for _ in range(3):
        async with await client.chat.completions.create(**endless, stream=True) as stream:
            await anext(aiter(stream))
        await eventually(lambda: front.gateway.pipeline.running == 0)
        asking = asyncio.create_task(client.chat.completions.create(**endless))
        await eventually(lambda: front.gateway.pipeline.running == 1)
        asking.cancel()
        await eventually(lambda: front.gateway.pipeline.running == 0)
    assert 2 == (await _whole(client, max_tokens=2))[2]
    assert ["client_gone"] * 6 + ["ok"] == [row["status"] for row in (await front.rows())[-7:]]
    assert 0 == front.gateway._fleet.in_flight["local"]


async def test_what_does_not_fit_is_refused_with_the_code_that_clients_know(front: Any) -> None:
    """A prompt beyond the context is a ``BadRequestError`` with its code and the numbers; the engine lives on."""
    client = front.openai()
    with pytest.raises(openai.BadRequestError) as caught:
        await _whole(client, messages=[{"role": "user", "content": "word " * 2000}])
    assert "context_length_exceeded" == caught.value.code
    assert "512" in caught.value.message
    assert 2 == (await _whole(client, max_tokens=2))[2]


async def test_what_the_engine_cannot_do_is_refused_by_name(front: Any) -> None:
    """A parameter that the engine does not know is a 400 that names it; neutral values are none."""
    client = front.openai()
    unknown = {"modalities": ["audio"], "web_search_options": {}, "verbosity": "low", "thinking": {}, "of_next_year": 1}
    for name, value in unknown.items():
        with pytest.raises(openai.BadRequestError) as caught:
            await _whole(client, extra_body={name: value})
        assert "unsupported_parameter" == caught.value.code, name
        assert f"`{name}`" in caught.value.message, name
    neutral = {"presence_penalty": 0, "logit_bias": {}, "tools": [], "user": "u", "metadata": {"a": "b"}}
    assert 2 == (await _whole(client, max_tokens=2, extra_body=neutral))[2]


async def test_numbers_that_are_none_do_not_reach_the_engine(front: Any) -> None:
    """A healthy request runs beside them and ends well."""
    healthy = asyncio.create_task(_whole(front.openai(), max_tokens=32))
    for value in (b"NaN", b"Infinity", b"-Infinity", b"1e999"):
        body = b'{"model":"any","temperature":%b,"messages":[{"role":"user","content":"hi"}]}' % value
        response = await front.post(body)
        assert (400, "temperature") == (response.status_code, response.json()["error"]["param"])
    assert 32 == (await healthy)[2]


async def test_zero_is_a_value_for_the_engine(front: Any) -> None:
    """Temperature 0 is greedy and seed 0 is a seed: the same answer each time."""
    client = front.openai()
    for fields in ({"temperature": 0}, {"temperature": 1.0, "seed": 0}, {"temperature": 1.0, "top_p": 1e-6}):
        first, second = [await _whole(client, max_tokens=16, **fields) for _ in range(2)]
        assert first == second, fields
    with pytest.raises(openai.BadRequestError, match="top_p must be over 0"):
        await _whole(client, top_p=0)
