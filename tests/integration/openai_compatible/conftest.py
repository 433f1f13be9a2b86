"""An upstream on a real socket, and the OpenAI-compatible backend that speaks with it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from backends._made_up import MadeUp
from backends.openai_compatible import OpenAICompatible
from gateway.price import Usage
from gateway.types import Operation

KEY = "sk-canary-0123456789"


def _answer(request: Any) -> MadeUp:
    return MadeUp(
        operation=Operation.CHAT if request.path.endswith("/chat/completions") else Operation.COMPLETION,
        id="id-1",
        model=request.json["model"],
        created_unix_s=1,
        words=("Grüße", " 世界"),
        reason="stop",
        n=1,
        usage=Usage(prompt_tokens=3, output_tokens=2),
        usage_at="given",
    )


async def _respond(request: Any, conversation: Any) -> None:
    if request.json.get("stream"):
        await conversation.stream(*_answer(request).events())
    else:
        await conversation.answer(b"".join(_answer(request).halves()))


@pytest.fixture(params=["own", "httpx"])
def connect(request: pytest.FixtureRequest, serve: Any, surroundings: Any) -> Callable[..., Any]:
    """Opens an upstream that answers as told, and a backend that speaks with it."""

    @asynccontextmanager
    async def connected(
        respond: Callable[[Any, Any], Awaitable[None]] = _respond, *, clock: Any = None, **parameters: Any
    ) -> AsyncIterator[tuple[OpenAICompatible, Any]]:
        async with serve(respond) as upstream:
            parameters.setdefault("transport", request.param)
            backend = OpenAICompatible(base_url=upstream.url, api_key_env="KEY", **parameters)
            await backend.start("pool", surroundings(clock=clock, KEY=KEY, EXTRA="extra-secret"))
            try:
                yield backend, upstream
            finally:
                await backend.close()

    return connected


@pytest.fixture
def events() -> Callable[[Any], list[bytes]]:
    """The events of the good answer to a request."""
    return lambda request: list(_answer(request).events())


@pytest.fixture
def body() -> Callable[[Any], bytes]:
    """The body of the good answer to a request."""
    return lambda request: b"".join(_answer(request).halves())


@pytest.fixture
def key() -> str:
    """The key that the backend has for its upstream."""
    return KEY
