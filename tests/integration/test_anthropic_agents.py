"""Requests as real clients of Anthropic's send them: accepted, answered, and passed to Anthropic as they are."""

from typing import Any

import pytest

from gateway.types import Operation
from tests.anthropic_answers import checked_events, checked_message
from tests.contract.answer_scripts import AnthropicScript, OpenAIScript

SESSION = "9fbceec8-6597-4b5d-8861-a391f0a3a7cd"
BETAS = "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,effort-2025-11-24"
MARK = {"type": "ephemeral"}
CODING_TOOLS = [
    {
        "name": f"Tool{number}",
        "description": "Does something to a file.",
        "input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"path": {"type": "string"}, "limit": {"type": "integer", "exclusiveMinimum": 0}},
            "required": ["path"],
            "additionalProperties": False,
        },
    }
    for number in range(24)
]
CODING: dict[str, Any] = {
    "model": "claude-opus-4-8",
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "<system-reminder>x</system-reminder>"}]},
        {"role": "user", "content": [{"type": "text", "text": "Write hello.py", "cache_control": MARK}]},
    ],
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=1;"},
        {"type": "text", "text": "You are a coding agent.", "cache_control": MARK},
        {"type": "text", "text": "Be brief.", "cache_control": {**MARK, "ttl": "1h"}},
    ],
    "tools": CODING_TOOLS,
    "metadata": {"user_id": f'{{"device_id":"e585","account_uuid":"","session_id":"{SESSION}"}}'},
    "max_tokens": 64000,
    "thinking": {"type": "adaptive"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "high"},
    "stream": True,
}
CHATTING: dict[str, Any] = {
    "model": "m",
    "max_tokens": 4096,
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
}
CLIENTS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "a coding agent": (
        CODING,
        {
            "anthropic-version": "2023-06-01",
            "anthropic-beta": BETAS,
            "x-claude-code-session-id": SESSION,
            "x-app": "cli",
            "anthropic-dangerous-direct-browser-access": "true",
            "accept-encoding": "gzip, deflate, br, zstd",
        },
    ),
    "a chat": (CHATTING, {"anthropic-version": "2023-06-01", "sec-fetch-mode": "cors"}),
    "a streamed chat": ({**CHATTING, "stream": True}, {"anthropic-version": "2026-10-21"}),
}


@pytest.mark.parametrize("kind", ["openai_compatible", "anthropic"])
@pytest.mark.parametrize("client", CLIENTS)
async def test_it_is_accepted_and_answered(gateway_over: Any, client: str, kind: str) -> None:
    """Over both formats, without anything that a route would have to allow."""
    script: Any = AnthropicScript() if kind == "anthropic" else OpenAIScript(Operation.CHAT)

    async def respond(request: Any, conversation: Any) -> None:
        if request.json.get("stream"):
            await conversation.stream(script.opened(), script.text("ok"), script.ended(), script.done())
        else:
            await conversation.answer(script.whole("ok"))

    body, headers = CLIENTS[client]
    front, upstream = await gateway_over(respond, use=kind)
    response = await front.post(body, path="/v1/messages?beta=true", headers=headers)
    assert 200 == response.status_code, response.text
    assert "x-headrace-dropped" not in response.headers
    if body.get("stream"):
        checked_events(response.content)
    else:
        checked_message(response.content)
    sent = upstream.requests[0].json
    if kind == "anthropic":
        assert body == sent
    else:
        assert {tool["function"]["name"] for tool in sent.get("tools", ())} == {
            it["name"] for it in body.get("tools", ())
        }
        assert body["max_tokens"] == sent["max_tokens"]


async def test_what_a_coding_agent_asks_before_it_begins(running: Any) -> None:
    """Whether anybody is there, without a key, and which models there are, in Anthropic's shape."""
    assert 200 == (await running.http.head("/")).status_code
    headers = {"anthropic-version": "2023-06-01", "authorization": "Bearer x"}
    page = (await running.http.get("/v1/models?limit=1000", headers=headers)).json()
    assert (["fake"], False, "fake") == ([card["id"] for card in page["data"]], page["has_more"], page["last_id"])


async def test_a_server_with_anthropics_endpoints_gets_the_bytes(gateway_over: Any) -> None:
    """VLLM and llama-server have them: the backend says so, and nothing is translated."""

    async def respond(request: Any, conversation: Any) -> None:
        counted = request.path.endswith("/count_tokens")
        await conversation.answer(b'{"input_tokens":7}' if counted else AnthropicScript().whole("ok"))

    front, upstream = await gateway_over(respond, operations=["chat", "messages", "count_tokens"])
    body = {**CHATTING, "container": "c"}
    assert 200 == (await front.post(body, path="/v1/messages")).status_code
    counted = await front.post({"model": "m", "messages": CHATTING["messages"]}, path="/v1/messages/count_tokens")
    assert ({"input_tokens": 7}, None) == (counted.json(), counted.headers.get("x-headrace-estimated"))
    assert [("/v1/messages", body["container"]), ("/v1/messages/count_tokens", None)] == [
        (request.path, request.json.get("container")) for request in upstream.requests
    ]


async def test_who_cannot_count_says_so(gateway_over: Any) -> None:
    """The forecast, marked in the body and in a header; nobody is asked."""

    async def respond(_: Any, conversation: Any) -> None:
        await conversation.answer(b"{}", status=500)

    front, upstream = await gateway_over(respond)
    counted = await front.post({"model": "m", "messages": CHATTING["messages"]}, path="/v1/messages/count_tokens")
    assert (True, "true", []) == (
        counted.json()["estimated"],
        counted.headers["x-headrace-estimated"],
        upstream.requests,
    )
    assert counted.json()["input_tokens"] > 0
