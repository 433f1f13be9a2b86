"""Every client format over Gemini's own: a loopback server that answers as Google's does."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import openai
import pytest

CALL = {"functionCall": {"name": "look", "args": {"at": 1}}, "thoughtSignature": "sig"}
COUNTS = {"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 3}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
ASK = {"model": "gemini-x", "messages": [{"role": "user", "content": "hi"}]}


def _piece(*parts: dict[str, Any], reason: str = "") -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, **({"finishReason": reason} if reason else {})}
    return {"candidates": [candidate], "modelVersion": "gemini-x", "responseId": "r", "usageMetadata": COUNTS}


async def _respond(request: Any, conversation: Any) -> None:
    if dict(request.headers).get("x-goog-api-key") != "google-secret":
        await conversation.answer(b'{"error":{"code":401,"message":"no","status":"UNAUTHENTICATED"}}', status=401)
        return
    last = CALL if "tools" in request.json else {"text": "llo."}
    parts = ({"text": "hm", "thought": True}, {"text": "He"}, last)
    if request.path.endswith(":streamGenerateContent?alt=sse"):
        reasons = ("", "", "STOP")
        pieces = [_piece(part, reason=reason) for part, reason in zip(parts, reasons, strict=True)]
        await conversation.stream(*(b"data: " + json.dumps(one).encode() + b"\r\n\r\n" for one in pieces))
    else:
        await conversation.answer(json.dumps(_piece(*parts, reason="STOP")).encode())


@pytest.fixture
async def front(serve: Any, start_gateway: Callable[..., Awaitable[Any]], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A gateway over it."""
    monkeypatch.setenv("GOOGLE", "google-secret")
    async with serve(_respond) as upstream:
        gemini = {"use": "gemini", "base_url": upstream.url, "api_key_env": "GOOGLE", "models": ["gemini-x"]}
        yield await start_gateway({"backends": {"google": gemini}})


async def test_a_chat(front: Any) -> None:
    """Whole and streamed, with what was thought and counted."""
    client = front.openai()
    whole = await client.chat.completions.create(**ASK)
    stream = await client.chat.completions.create(**ASK, stream=True)
    chunks = [chunk async for chunk in stream]
    assert "Hello." == whole.choices[0].message.content
    assert "Hello." == "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert (9, 7, 3) == (
        whole.usage.prompt_tokens,
        whole.usage.completion_tokens,
        whole.usage.completion_tokens_details.reasoning_tokens,
    )
    assert "hm" == whole.choices[0].message.reasoning_content


async def test_a_call_and_its_signature(front: Any) -> None:
    """The client's next turn has both again."""
    answer = await front.openai().chat.completions.create(**ASK, tools=[TOOL])
    message = answer.choices[0].message
    assert [("look", '{"at":1}')] == [(call.function.name, call.function.arguments) for call in message.tool_calls]
    assert ["sig"] == [block["signature"] for block in message.thinking_blocks]


async def test_a_response(front: Any) -> None:
    """OpenAI's other format."""
    response = await front.openai().responses.create(model="gemini-x", input="hi")
    assert "Hello." == response.output_text


async def test_messages(front: Any) -> None:
    """Anthropic's client over Google's model."""
    message = await front.anthropic().messages.create(max_tokens=9, **ASK)
    assert "Hello." == "".join(block.text for block in message.content if block.type == "text")


async def test_what_it_cannot_carry_is_refused_by_name(front: Any) -> None:
    """In the client's own format."""
    with pytest.raises(openai.BadRequestError) as caught:
        await front.openai().chat.completions.create(**ASK, logit_bias={"1": 1})
    assert "logit_bias" == caught.value.param
