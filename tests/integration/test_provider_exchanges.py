"""Each provider's own fields: what a preset sends, what is read of the answers, and what reaches clients as it came.

The exchanges are files in ``providers/``; those that nobody here could record are ``synthetic``, and say after what.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from backends._presets import preset_named
from tests.exchanges import Keeper

FOLDER = Path(__file__).parent / "providers"
EXCHANGES: Mapping[str, Mapping[str, Any]] = {
    file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.yaml"))
}
ENVELOPE = {"id": "a", "object": "chat.completion.chunk", "created": 1750000000, "model": "served"}
ANTHROPICS: Any = {"model": "served", "max_tokens": 64, "messages": [{"role": "user", "content": "Hi."}]}


def events(exchange: Mapping[str, Any]) -> list[bytes]:
    """Its stream, comments and all."""
    said = [it if isinstance(it, str) else f"data: {json.dumps({**ENVELOPE, **it})}" for it in exchange["events"]]
    return [f"{event}\n\n".encode() for event in [*said, "data: [DONE]"]]


@pytest.fixture(params=EXCHANGES)
async def provider(request: Any, gateway_over: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A gateway over a server that answers as the provider does, what that got, and the exchange."""
    exchange = EXCHANGES[request.param]

    async def respond(asked: Any, conversation: Any) -> None:
        if asked.json.get("stream"):
            await conversation.stream(*events(exchange))
        else:
            await conversation.answer(json.dumps(exchange["whole"]).encode())

    if name := preset_named(request.param).api_key_env:
        monkeypatch.setenv(str(name), "sk-of-the-provider")
    running, upstream = await gateway_over(respond, preset=request.param, models=["served"])
    return running, upstream, exchange


@pytest.mark.parametrize("stream", [False, True])
async def test_a_chat_goes_up_in_the_providers_words(provider: Any, stream: bool) -> None:
    """What it calls otherwise has its name, what it refuses stays behind, what is its own goes up as it came."""
    running, upstream, exchange = provider
    body = {"model": "served", "stream": stream, **exchange["asks"]}
    answered = await running.http.post("/v1/chat/completions", json=body)
    assert 200 == answered.status_code, answered.text
    sent = upstream.requests[0].json
    assert exchange["upstream"] == {name: sent.get(name) for name in exchange["upstream"]}
    assert not sent.keys() & set(exchange["absent"])
    assert "x-headrace-dropped" not in answered.headers


@pytest.mark.parametrize("stream", [False, True])
async def test_openais_client_hears_text_thoughts_and_counts(provider: Any, stream: bool) -> None:
    """Thoughts stand beside the words, and never for them; the counts are the provider's."""
    running, _, exchange = provider
    client, says = running.openai(), exchange["says"]
    asked: Any = {"model": "served", "messages": [{"role": "user", "content": "Hi."}]}
    if stream:
        options: Any = {"include_usage": True}
        answered = await client.chat.completions.create(**asked, stream=True, stream_options=options)
        chunks = [chunk async for chunk in answered]
        deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
        assert all(isinstance(delta.content, str | None) for delta in deltas)
        text = "".join(delta.content or "" for delta in deltas)
        thoughts = "".join(thought(delta) for delta in deltas)
        (usage,) = [chunk.usage for chunk in chunks if chunk.usage]
        told = {name for chunk in chunks for name in chunk.to_dict()}
    else:
        answer = await client.chat.completions.create(**asked)
        message, usage, told = answer.choices[0].message, answer.usage, set(answer.to_dict())
        text, thoughts = message.content, thought(message)
    assert (says["text"], says["thoughts"]) == (text, thoughts)
    assert says["output_tokens"] == usage.completion_tokens or "x_groq" in told
    assert set(exchange.get("untouched", ())) <= told


def thought(said: Any) -> str:
    """What a message or a delta says of it, by either name."""
    return getattr(said, "reasoning_content", None) or getattr(said, "reasoning", None) or ""


@pytest.mark.parametrize("stream", [False, True])
async def test_anthropics_client_hears_the_same(provider: Any, stream: bool) -> None:
    """Thoughts are blocks of their own, with their seal where there is one, and the counts are the provider's."""
    running, _, exchange = provider
    client, says = running.anthropic(), exchange["says"]
    if stream:
        async with client.messages.stream(**ANTHROPICS) as told:
            message = await told.get_final_message()
    else:
        message = await client.messages.create(**ANTHROPICS)
    thinking, text = message.content
    assert (says["thoughts"], says["text"]) == (thinking.thinking, text.text)
    assert says.get("signature", "") == thinking.signature
    usage = message.usage
    assert says["output_tokens"] == usage.output_tokens
    assert says["prompt_tokens"] == usage.input_tokens + (usage.cache_read_input_tokens or 0)
    assert says.get("cached_tokens", 0) == (usage.cache_read_input_tokens or 0)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_ledger_has_what_the_provider_counts_and_charges(provider: Any, stream: bool) -> None:
    """Counts by its own names, and its own price where it states one."""
    running, _, exchange = provider
    keeper = Keeper()
    running.gateway._ledger.observe_with([keeper])
    says = exchange["says"]
    body = {"model": "served", "stream": stream, "messages": [{"role": "user", "content": "Hi."}]}
    await running.http.post("/v1/chat/completions", json=body)
    (attempt,) = keeper.entries[0].attempts
    assert attempt.usage is not None
    counted = (attempt.usage.prompt_tokens, attempt.usage.output_tokens, attempt.usage.cached_tokens)
    assert (says["prompt_tokens"], says["output_tokens"], says.get("cached_tokens", 0)) == counted
    assert not attempt.usage.estimated
    if "stated_usd" in says:
        assert (Decimal(str(says["stated_usd"])), "stated") == (attempt.cost_usd, attempt.cost_source)
