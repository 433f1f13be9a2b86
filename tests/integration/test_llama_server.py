"""llama.cpp's own server as an upstream that nobody here wrote, with the default model.

What OpenAI's and Anthropic's official clients hear of it through a gateway, whole and streamed, translated to its chats
and in its own endpoint for Anthropic's. Its own for Responses is not asked: its streams leave ``content_index`` out, on
which OpenAI's client gives up.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import openai
import pytest
import pytest_asyncio

pytest.importorskip("xllamacpp")
pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]

SERVER = Path(__file__).parents[1] / "benchmarks" / "llama_server.py"
LONG = (
    "Say one word. The quick brown fox jumps over the lazy dog, again and again, until the evening comes and it sleeps."
)
TURNS: Any = [{"role": "user", "content": LONG}]
ASKED: Any = {"model": "small", "messages": TURNS, "max_tokens": 8}
START_S = 60.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(default_model_path: Path) -> AsyncIterator[str]:
    """Where the server listens."""
    arguments = ("--threads", "1", "--parallel", "2", "--context-tokens", "512", "--metrics", "--embeddings")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(SERVER), str(default_model_path), *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield (await asyncio.wait_for(process.stdout.readline(), START_S)).decode().strip()
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 5.0)
        except TimeoutError:
            process.kill()
            await process.wait()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def front(address: str, start_shared_gateway: Callable[..., Awaitable[Any]]) -> Any:
    """A gateway with the preset, by way of chats, and beside it the server's own endpoints of the other formats."""
    known = {"use": "openai_compatible", "preset": "llama_server", "base_url": f"{address}/v1"}
    spoken = ["chat", "completion", "embedding", "count_tokens", "messages"]
    backends = {
        "chats": {**known, "models": ["small"], "load_every_s": 0.02},
        "own": {**known, "models": ["native"], "operations": spoken},
    }
    routes = {name: {"models": [name], "targets": [f"{at}/{name}"]} for name, at in MODELS.items()}
    return await start_shared_gateway({"backends": backends, "routes": routes})


MODELS = {"small": "chats", "native": "own"}
BOTH = pytest.mark.parametrize("model", MODELS)


async def test_a_chat_whole_and_streamed(front: Any) -> None:
    """The same words and the same counts; the second time all but one token of the prompt is remembered."""
    client = front.openai()
    await client.chat.completions.create(**ASKED)
    whole = await client.chat.completions.create(**ASKED, temperature=0)
    options: Any = {"include_usage": True}
    streamed = await client.chat.completions.create(**ASKED, temperature=0, stream=True, stream_options=options)
    chunks = [chunk async for chunk in streamed]
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text
    assert whole.choices[0].message.content == text
    usage = chunks[-1].usage
    assert whole.usage.to_dict() == usage.to_dict()
    assert usage.prompt_tokens - 1 == usage.prompt_tokens_details.cached_tokens


async def test_its_own_fields_pass_both_ways(front: Any) -> None:
    """``timings``, and the progress that ``return_progress`` asks for; ``id_slot`` and ``cache_prompt`` reach it."""
    client = front.openai()
    beside = {"id_slot": 1, "cache_prompt": False, "return_progress": True}
    whole = await client.chat.completions.create(**ASKED, extra_body=beside)
    assert 0 == whole.to_dict()["timings"]["cache_n"]
    chunks = [c.to_dict() async for c in await client.chat.completions.create(**ASKED, stream=True, extra_body=beside)]
    assert any("prompt_progress" in chunk for chunk in chunks)


async def test_the_prompt_that_is_remembered_stands_in_a_header(front: Any) -> None:
    """Where the answer is whole, so that the counts come before the headers."""
    client = front.openai()
    await client.chat.completions.create(**ASKED)
    again = await client.chat.completions.with_raw_response.create(**ASKED)
    cached = again.parse().usage.prompt_tokens_details.cached_tokens
    assert cached > 0
    assert str(cached) == again.headers["x-headrace-cached-tokens"]


@BOTH
async def test_messages_whole_and_streamed(front: Any, model: str) -> None:
    """By Anthropic's client: the same words, its cache counts, its stop reason."""
    client = front.anthropic()
    asked: Any = {"model": model, "max_tokens": 8, "messages": TURNS, "extra_body": {"temperature": 0}}
    await client.messages.create(**asked)
    whole = await client.messages.create(**asked)
    async with client.messages.stream(**asked) as stream:
        streamed = await stream.get_final_message()
    assert whole.content[0].text == streamed.content[0].text
    assert whole.stop_reason == streamed.stop_reason
    assert whole.usage.output_tokens == streamed.usage.output_tokens > 0
    assert streamed.usage.cache_read_input_tokens > 0


@BOTH
async def test_a_count_of_tokens_is_what_the_prompt_takes(front: Any, model: str) -> None:
    """The server counts itself: no estimate."""
    count = await front.anthropic().messages.count_tokens(model=model, messages=TURNS)
    whole = await front.openai().chat.completions.create(**ASKED)
    assert whole.usage.prompt_tokens == count.input_tokens


async def test_responses_whole_and_streamed(front: Any) -> None:
    """By OpenAI's client: the same words, counts, and an end."""
    client = front.openai()
    asked: Any = {"model": "small", "input": LONG, "max_output_tokens": 8, "temperature": 0}
    await client.responses.create(**asked)
    whole = await client.responses.create(**asked)
    async with client.responses.stream(**asked) as stream:
        streamed = await stream.get_final_response()
    assert whole.output_text
    assert whole.output_text == streamed.output_text
    assert whole.status == streamed.status
    assert whole.usage.output_tokens == streamed.usage.output_tokens > 0


async def test_vectors(front: Any) -> None:
    """Two texts, two vectors of one length."""
    answer = await front.openai().embeddings.create(model="small", input=["a river", "a mountain"])
    first, second = (entry.embedding for entry in answer.data)
    assert len(first) == len(second) > 1
    assert first != second


async def test_a_prompt_that_is_too_long_is_told_as_one(front: Any) -> None:
    """By the server's own word for it, which clients of OpenAI get as a 400 and agents shorten their prompt for."""
    turns: Any = [{"role": "user", "content": LONG * 100}]
    with pytest.raises(openai.BadRequestError) as refused:
        await front.openai().chat.completions.create(model="small", messages=turns)
    assert "exceed_context_size_error" in {refused.value.type, refused.value.code}


async def test_requests_past_the_gateway_are_seen(front: Any, address: str, eventually: Any) -> None:
    """The gauge of requests under way tells of one that somebody sent there directly."""
    backend = front.backend("chats")
    client = openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="x", max_retries=0)
    stream = await client.chat.completions.create(model="m", messages=TURNS, max_tokens=400, stream=True)
    await eventually(lambda: backend.facts().in_flight == 1)
    await stream.close()
    await client.close()
    await eventually(lambda: backend.facts().in_flight is None)
