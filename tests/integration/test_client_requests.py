"""Requests in the shapes in which real clients send them, with made-up values: each is accepted and answered."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from gateway.types import Operation
from gateway.wire.openai_embeddings import embeddings_answer
from tests.anthropic_answers import checked_events, checked_message
from tests.contract.answer_scripts import AnthropicScript, OpenAIScript

CHAT, RESPONSES, EMBEDDINGS = "/v1/chat/completions", "/v1/responses", "/v1/embeddings"
MESSAGES = "/v1/messages"
HI = [{"role": "user", "content": "hi"}]
TYPED_HI = [{"type": "message", "role": "user", "content": "hi"}]
COUNTED = {"stream": True, "stream_options": {"include_usage": True}}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
FUNCTION = {"name": "Place", "description": "Does something.", "parameters": SCHEMA}
ID = "01a229d8-0984-72a3-ac63-9af3748ec699"
CODEX_ITEMS = [
    {"type": "message", "id": f"msg_{number}", "role": role, "content": [{"type": "input_text", "text": "hi"}]}
    for number, role in enumerate(("developer", "user", "user", "user"))
]
CODEX_TOOLS = [
    {"type": "function", "name": f"tool_{number}", "description": "d", "strict": False, "parameters": SCHEMA}
    for number in range(8)
]
CODEX: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "input": CODEX_ITEMS,
    "tools": [*CODEX_TOOLS, {"type": "web_search"}],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"summary": "auto"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": ID,
    "client_metadata": {"thread_id": ID, "x-codex-turn-metadata": json.dumps({"installation_id": ID})},
}
OPENCODE: dict[str, Any] = {
    "model": "m",
    "max_tokens": 32000,
    "messages": [{"role": "system", "content": "You are a coding agent."}, *HI],
    "tools": [{"type": "function", "function": {**FUNCTION, "name": f"tool_{number}"}} for number in range(10)],
    "tool_choice": "auto",
    **COUNTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request as a client sends it. ``stays`` are its offers and hints that a chat upstream may go without."""

    path: str
    body: Mapping[str, Any]
    agent: str
    headers: Mapping[str, str] = field(default_factory=dict)
    stays: frozenset[str] = frozenset()


def chat(agent: str, headers: Mapping[str, str] | None = None, /, **fields: Any) -> Sent:
    """A chat of one turn, with these fields beside."""
    return Sent(path=CHAT, body={"model": "m", "messages": HI, **fields}, agent=agent, headers=headers or {})


def response(agent: str, asked: Any = "hi", /, **fields: Any) -> Sent:
    """The same for Responses."""
    return Sent(path=RESPONSES, body={"model": "m", "input": asked, **fields}, agent=agent)


FORCED = {"type": "function", "function": {"name": "Place"}}
TOOLS = [{"type": "function", "function": FUNCTION}]
STAINLESS = {"x-stainless-lang": "js", "x-stainless-retry-count": "0", "accept-language": "*", "sec-fetch-mode": "cors"}
TYPED_CONTENT = [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]
REQUESTS: dict[str, Sent] = {
    "openai for Python": chat("OpenAI/Python 3.3.0"),
    "openai for Python, streamed": chat("OpenAI/Python 3.3.0", **COUNTED),
    "openai for Python, Responses": response("OpenAI/Python 3.3.0"),
    "openai for Python, Responses streamed": response("OpenAI/Python 3.3.0", stream=True),
    "openai for Node": chat("OpenAI/JS 6.49.0", STAINLESS),
    "openai for Node, streamed": chat("OpenAI/JS 6.49.0", STAINLESS, stream=True),
    "AI SDK, compatible": chat("ai-sdk/openai-compatible/2.0", **COUNTED),
    "AI SDK, Responses": response("ai-sdk/openai/3.0", TYPED_CONTENT),
    "Instructor": chat("OpenAI/Python 3.3.0", tools=TOOLS, tool_choice=FORCED),
    "LangChain": chat("OpenAI/Python 3.3.0", {"x-stainless-raw-response": "true"}, stream=False),
    "LangChain, Responses": response("OpenAI/Python 3.3.0", TYPED_HI, stream=False),
    "LiteLLM": chat("OpenAI/Python 3.3.0"),
    "LiteLLM's proxy, Responses": response(
        "litellm/1.110",
        [{"type": "message", **TYPED_CONTENT[0]}],
        include=["reasoning.encrypted_content"],
        max_output_tokens=16,
    ),
    "LlamaIndex, streamed": chat("OpenAI/Python 3.3.0", stream=True, temperature=0.1),
    "llm": chat("OpenAI/Python 3.3.0", **COUNTED),
    "OpenAI's Agents": response("Agents/Python 0.20.0", HI, include=[], tools=[]),
    "Pydantic AI": chat("pydantic-ai/2.31", stream=False),
    "opencode": Sent(path=CHAT, body=OPENCODE, agent="opencode/1.18"),
    "Codex": Sent(
        path=RESPONSES,
        body=CODEX,
        agent="codex_exec/0.142",
        headers={"originator": "codex_exec", "session-id": ID, "accept": "text/event-stream"},
        stays=frozenset({"tools[8]"}),
    ),
    "LiteLLM, Messages": Sent(
        path=MESSAGES,
        body={
            "model": "m",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
            "max_tokens": 128000,
        },
        agent="litellm/1.110",
        headers={"anthropic-version": "2023-06-01", "x-api-key": "x"},
    ),
}
EMBEDDED: dict[str, dict[str, Any]] = {
    "openai for Python": {"model": "m", "input": ["a", "b"], "encoding_format": "base64"},
    "LangChain, in tokens": {"model": "m", "input": [[8127, 12], [5]], "encoding_format": "base64"},
    "an API tester": {"model": "m", "input": "a", "encoding_format": "float", "user": "user-1234", "dimensions": 2},
}
_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def check_answer(sent: Sent, content: bytes) -> None:
    """It has the official types of its endpoint, from its first event to its end."""
    if sent.path == MESSAGES:
        (checked_events if sent.body.get("stream") else checked_message)(content)
    elif not sent.body.get("stream"):
        (ChatCompletion if sent.path == CHAT else Response).model_validate_json(content)
    else:
        events = [line[6:] for line in content.split(b"\n") if line.startswith(b"data: ")]
        if sent.path == CHAT:
            assert b"[DONE]" == events.pop()
            chunks = [ChatCompletionChunk.model_validate_json(event) for event in events]
            assert "ok" == "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
            assert bool(sent.body.get("stream_options")) == any(chunk.usage for chunk in chunks)
        else:
            told = [_EVENT.validate_json(event) for event in events]
            assert ("response.completed", "ok") == (told[-1].type, told[-1].response.output_text)


@pytest.mark.parametrize("kind", ["openai_compatible", "anthropic"])
@pytest.mark.parametrize("client", REQUESTS)
async def test_it_is_accepted_and_answered(gateway_over: Any, client: str, kind: str) -> None:
    """Over providers of two formats, without anything that a route would have to allow."""
    sent = REQUESTS[client]
    script: Any = AnthropicScript() if kind == "anthropic" else OpenAIScript(Operation.CHAT)

    async def respond(request: Any, conversation: Any) -> None:
        if request.json.get("stream"):
            await conversation.stream(script.opened(), script.text("ok"), script.ended(), script.done())
        else:
            await conversation.answer(script.whole("ok"))

    front, upstream = await gateway_over(respond, use=kind)
    headers = {"user-agent": sent.agent, "authorization": "Bearer x", **sent.headers}
    response = await front.post(json.dumps(sent.body).encode(), path=sent.path, headers=headers)
    assert 200 == response.status_code, response.text
    assert sent.stays == frozenset(response.headers.get("x-headrace-dropped", "").split(", ")) - {""}
    check_answer(sent, response.content)
    assert 1 == len(upstream.requests)


@pytest.mark.parametrize("client", EMBEDDED)
async def test_what_is_to_be_embedded_is(gateway_over: Any, client: str) -> None:
    """Texts or tokens, in the form that was asked for."""

    async def respond(request: Any, conversation: Any) -> None:
        vector = "AAAAPwAAgL4=" if request.json["encoding_format"] == "base64" else [0.5, -0.25]
        await conversation.answer(embeddings_answer("m", [vector], 3))

    front, upstream = await gateway_over(respond)
    answer = await front.post(
        json.dumps(EMBEDDED[client]).encode(), path=EMBEDDINGS, headers={"user-agent": "OpenAI/Python 3.3.0"}
    )
    assert 200 == answer.status_code, answer.text
    assert (3, 1) == (answer.json()["usage"]["prompt_tokens"], len(answer.json()["data"]))
    assert EMBEDDED[client] == {name: upstream.requests[0].json[name] for name in EMBEDDED[client]}
