"""``headrace serve`` before an upstream that speaks TLS: answers, streams, hang-ups, connections that are kept."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme

CHAT = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
STREAMED_CHAT = CHAT[:-1] + b',"stream":true}'
WHOLE = msgspec.json.encode(
    {"choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}
)


def _event(text: str, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return b"data: " + msgspec.json.encode({"choices": [choice]}) + b"\n\n"


async def _respond(request: Any, conversation: Any) -> None:
    if not request.json.get("stream"):
        await conversation.answer(WHOLE)
    elif request.json.get("seed"):
        await conversation.stream(_event("one"), end=False)
        await conversation.until_closed()
    else:
        await conversation.stream(_event("one"), _event("two" * 20_000), _event("", "stop"), b"data: [DONE]\n\n")


@pytest.fixture
async def serve_before_tls(serve: Any, start_process: Any, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Starts an upstream over TLS, and ``headrace serve`` before it; ``trusts`` is whether it is told of its CA."""
    async with AsyncExitStack() as stack:

        async def start(*, trusts: bool) -> tuple[Any, Any]:
            authority, tls = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            authority.issue_cert("127.0.0.1").configure_cert(tls)
            path = tmp_path / "authority.pem"
            authority.cert_pem.write_to_path(str(path))
            upstream = await stack.enter_async_context(serve(_respond, tls))
            trust = {"verify": str(path)} if trusts else {}
            backend = {"use": "openai_compatible", "base_url": upstream.url, "models": ["m"], **trust}
            return await start_process({"backends": {"up": backend}}), upstream

        yield start


async def test_answers_over_tls(serve_before_tls: Any, events_of: Any) -> None:
    """Whole answers and streams come through, all over one connection that is kept in between."""
    served, upstream = await serve_before_tls(trusts=True)
    client = await served.connect()
    for _ in range(3):
        await client.post(CHAT)
        answer = await client.answer()
        assert (200, "ok") == (answer.status, answer.json["choices"][0]["message"]["content"])
        await client.post(STREAMED_CHAT)
        answer = await client.answer()
        texts = [event["choices"][0]["delta"]["content"] for event in events_of(answer.body)[:-1]]
        assert (200, "onetwo" + "two" * 19_999) == (answer.status, "".join(texts))
    assert (6, 1) == (len(upstream.requests), upstream.connections)


async def test_a_hang_up_ends_the_upstream_over_tls(serve_before_tls: Any) -> None:
    """A client that leaves in the middle of a stream closes the connection to the upstream at once."""
    served, upstream = await serve_before_tls(trusts=True)
    client = await served.connect()
    await client.post(STREAMED_CHAT[:-1] + b',"seed":1}')
    assert 200 == (await client.head()).status
    assert (1, 1) == (upstream.answering, upstream.open_connections)
    client.hang_up()
    async with asyncio.timeout(1):
        await upstream.until(lambda it: it.open_connections == 0)


async def test_an_upstream_that_nobody_vouches_for(serve_before_tls: Any) -> None:
    """Without its authority nothing of the request goes up, and the client is told why."""
    served, upstream = await serve_before_tls(trusts=False)
    client = await served.connect()
    await client.post(CHAT)
    answer = await client.answer()
    assert 502 == answer.status
    assert "its certificate is not trusted" in answer.json["error"]["message"]
    assert [] == upstream.requests
