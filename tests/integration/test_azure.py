"""Clients of every format over Azure's OpenAI: a loopback server that answers as Azure documents it.

The exchanges are synthetic, made by hand after Microsoft's reference: none was recorded.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import openai
import pytest

ASK = {"model": "dep-1", "messages": [{"role": "user", "content": "hi"}]}
SAFE = {"hate": {"filtered": False, "severity": "safe"}, "violence": {"filtered": False, "severity": "safe"}}
FINDINGS = [{"prompt_index": 0, "content_filter_results": SAFE}]
USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
REFUSAL = {
    "error": {
        "message": "The response was filtered due to the prompt triggering the content management policy.",
        "type": None,
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {"hate": {"filtered": True, "severity": "high"}},
        },
    }
}


def _chunk(delta: dict[str, Any] | None, reason: str | None = None, **fields: Any) -> bytes:
    choices = (
        []
        if delta is None
        else [{"index": 0, "delta": delta, "finish_reason": reason, "content_filter_results": SAFE, "logprobs": None}]
    )
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x", "choices": choices}
    return b"data: " + json.dumps(head | fields).encode() + b"\n\n"


NOTHING_YET = {"id": "", "object": "", "created": 0, "model": "", "prompt_filter_results": FINDINGS}
"""What Azure sends first: its findings about the prompt, and no answer yet."""
STREAM = (
    _chunk(None, **NOTHING_YET),
    _chunk({"role": "assistant", "content": "He"}),
    _chunk({"content": "llo."}),
    _chunk({}, "stop"),
    _chunk(None, usage=USAGE),
    b"data: [DONE]\n\n",
)
WHOLE = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-x",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello."},
            "finish_reason": "stop",
            "content_filter_results": SAFE,
        }
    ],
    "prompt_filter_results": FINDINGS,
    "usage": USAGE,
}
EMBEDDING = {
    "object": "list",
    "model": "e",
    "data": [{"object": "embedding", "index": 0, "embedding": [1.0, 0.0]}],
    "usage": {"prompt_tokens": 2, "total_tokens": 2},
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "gpt-x",
    "status": "completed",
    "output": [
        {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
        }
    ],
    "usage": {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13},
    "content_filters": FINDINGS,
}


async def _respond(request: Any, conversation: Any) -> None:
    headers = dict(request.headers)
    if request.path.endswith("/oauth2/v2.0/token"):
        await conversation.answer(b'{"expires_in":3599,"access_token":"entra-canary-1"}')
    elif headers.get("api-key") != "azure-secret" and headers.get("authorization") != "Bearer entra-canary-1":
        await conversation.answer(b'{"error":{"code":"401","message":"Access denied"}}', status=401)
    elif b"say it back" in request.body:
        words = f"no: {headers.get('authorization', '')} {headers.get('api-key', '')}"
        await conversation.answer(json.dumps({"error": {"message": words}}).encode(), status=400)
    elif b"forbidden words" in request.body:
        await conversation.answer(json.dumps(REFUSAL).encode(), status=400)
    elif "/embeddings" in request.path:
        await conversation.answer(json.dumps(EMBEDDING).encode())
    elif "/responses" in request.path:
        await conversation.answer(json.dumps(RESPONSE).encode())
    elif request.json.get("stream"):
        await conversation.stream(*STREAM)
    else:
        await conversation.answer(json.dumps(WHOLE).encode())


V1 = {"api_key_env": "AZURE"}
DATED = {"api_key_env": "AZURE", "api_version": "2024-10-21"}
ENTRA = {"tenant_id": "t", "client_id": "c", "client_secret_env": "AZURE"}
Open = Callable[..., Awaitable[tuple[Any, Any]]]


@pytest.fixture
async def opened(serve: Any, start_gateway: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Starts a gateway over it, with these parameters; gives the upstream too."""
    monkeypatch.setenv("AZURE", "azure-secret")
    async with serve(_respond) as upstream:
        address = upstream.url.removesuffix("/v1")

        async def start(**fields: Any) -> tuple[Any, Any]:
            if entra := fields.pop("entra", None):
                fields["entra"] = {**entra, "authority": address}
            azure = {"use": "azure_openai", "base_url": f"{address}/openai", "models": ["dep-1"], **fields}
            return await start_gateway({"backends": {"azure": azure}}), upstream

        yield start


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        (V1, "/openai/v1/chat/completions"),
        ({**V1, "api_version": "preview"}, "/openai/v1/chat/completions?api-version=preview"),
        (DATED, "/openai/deployments/dep-1/chat/completions?api-version=2024-10-21"),
        ({"entra": ENTRA}, "/openai/v1/chat/completions"),
    ],
)
async def test_a_chat_by_either_address(opened: Open, fields: dict[str, Any], path: str) -> None:
    """Whole and streamed; what the filter found about the prompt reaches the client, first in a stream."""
    front, upstream = await opened(**fields)
    client = front.openai()
    whole = await client.chat.completions.create(**ASK)
    stream = await client.chat.completions.create(**ASK, stream=True)
    chunks = [chunk async for chunk in stream]
    assert "Hello." == whole.choices[0].message.content
    assert "Hello." == "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert FINDINGS == whole.model_extra["prompt_filter_results"]
    assert FINDINGS == chunks[0].model_extra["prompt_filter_results"]
    assert {path} == {request.path for request in upstream.requests if "oauth2" not in request.path}


async def test_one_token_serves_many_requests(opened: Open) -> None:
    """It is asked for once."""
    front, upstream = await opened(entra=ENTRA)
    for _ in range(3):
        await front.openai().chat.completions.create(**ASK)
    assert ["/t/oauth2/v2.0/token"] == [request.path for request in upstream.requests if "oauth2" in request.path]
    assert all("api-key" not in dict(request.headers) for request in upstream.requests)


@pytest.mark.parametrize("fields", [V1, {"entra": ENTRA}])
async def test_what_says_who_asks_is_in_no_error(opened: Open, fields: dict[str, Any]) -> None:
    """Even where the server says it back."""
    front, _ = await opened(**fields)
    with pytest.raises(openai.BadRequestError) as caught:
        await front.openai().chat.completions.create(
            model="dep-1", messages=[{"role": "user", "content": "say it back"}]
        )
    assert "no:" in str(caught.value)
    assert not any(secret in str(caught.value) for secret in ("entra-canary-1", "azure-secret"))


@pytest.mark.parametrize("stream", [False, True])
async def test_what_the_filter_refuses_is_told_as_that(opened: Open, stream: bool) -> None:
    """Azure's own code and words; it is the request's fault, and nobody's health suffers."""
    front, upstream = await opened(**V1)
    asked = {**ASK, "messages": [{"role": "user", "content": "forbidden words"}]}
    with pytest.raises(openai.BadRequestError) as caught:
        await front.openai().chat.completions.create(**asked, stream=stream)
    assert ("content_filter", "prompt") == (caught.value.code, caught.value.param)
    assert "content management policy" in str(caught.value)
    assert 1 == len(upstream.requests)


@pytest.mark.parametrize("fields", [V1, DATED])
async def test_the_other_formats(opened: Open, fields: dict[str, Any]) -> None:
    """Responses are Azure's own at the v1 address and translated at the other; Anthropic's are translated always."""
    front, upstream = await opened(**fields)
    response = await front.openai().responses.create(model="dep-1", input="hi")
    async with front.anthropic().messages.stream(max_tokens=9, **ASK) as stream:
        message = await stream.get_final_message()
    vector = await front.openai().embeddings.create(model="dep-1", input="hi", encoding_format="float")
    assert "Hello." == response.output_text
    assert "Hello." == "".join(block.text for block in message.content)
    assert (9, 4) == (message.usage.input_tokens, message.usage.output_tokens)
    assert [1.0, 0.0] == vector.data[0].embedding
    assert ("responses" in upstream.requests[0].path) is (fields is V1)
    assert 9 == upstream.requests[1].json["max_completion_tokens"]
