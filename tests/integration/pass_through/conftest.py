"""A provider of sound, pictures, verdicts and orders on a loopback socket, and a gateway before it.

Its answers are synthetic, made by hand after OpenAI's reference and the types of its client: none was recorded.
"""

import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from tests.loopback import Conversation, Received, Upstream, chunk, head

SOUND = b"ID3\x04\x00" + bytes(range(256)) * 40
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
IMAGE_USAGE = {
    "input_tokens": 400,
    "output_tokens": 1100,
    "total_tokens": 1500,
    "input_tokens_details": {"image_tokens": 388, "text_tokens": 12},
    "output_tokens_details": {"image_tokens": 1056, "text_tokens": 44},
}
HEARD_USAGE = {
    "type": "tokens",
    "input_tokens": 50,
    "output_tokens": 20,
    "total_tokens": 70,
    "input_token_details": {"audio_tokens": 45, "text_tokens": 5},
}
VERDICT = {
    "id": "modr-1",
    "model": "omni-moderation-latest",
    "results": [{"flagged": True, "categories": {"violence": True}, "category_scores": {"violence": 0.9}}],
}
SUBTITLES = b"1\n00:00:00,000 --> 00:00:07,000\nHello.\n\n"


def event(**fields: Any) -> bytes:
    """An event of a stream, named by its type."""
    return b"event: %b\ndata: %b\n\n" % (fields["type"].encode(), msgspec.json.encode(fields))


HEARD = (
    event(type="transcript.text.delta", delta="Hel"),
    event(type="transcript.text.delta", delta="lo."),
    event(type="transcript.text.done", text="Hello.", usage=HEARD_USAGE),
)
SPOKEN = (
    event(type="speech.audio.delta", audio=base64.b64encode(SOUND).decode()),
    event(
        type="speech.audio.done",
        usage={"input_tokens": 8, "output_tokens": 120, "total_tokens": 128},
    ),
)
DRAWN = (
    event(type="image_generation.partial_image", b64_json=PIXEL, partial_image_index=0),
    event(type="image_generation.completed", b64_json=PIXEL, usage=IMAGE_USAGE),
)


async def _listen(received: Received, conversation: Conversation) -> None:
    body = received.body
    if b'name="stream"\r\n\r\ntrue' in body:
        await conversation.stream(*HEARD)
    elif b"srt" in body:
        kind = {"content-type": "text/plain; charset=utf-8", "content-disposition": 'inline; filename="a.srt"'}
        await conversation.answer(SUBTITLES, headers=kind)
    elif b"verbose_json" in body:
        await conversation.answer(b'{"task":"transcribe","duration":12.48,"language":"english","text":"Hello."}')
    elif b"whisper-1" in body:
        await conversation.answer(b'{"text":"Hello.","usage":{"type":"duration","seconds":7}}')
    else:
        await conversation.answer(msgspec.json.encode({"text": "Hello.", "usage": HEARD_USAGE}))


async def _speak(received: Received, conversation: Conversation) -> None:
    if received.json.get("stream_format") == "sse":
        await conversation.stream(*SPOKEN)
        return
    await conversation.send(head(200, {"content-type": "audio/mpeg", "transfer-encoding": "chunked"}))
    pieces = [SOUND[at : at + 1000] for at in range(0, len(SOUND), 1000)]
    await conversation.send(*map(chunk, pieces), b"0\r\n\r\n")


async def _draw(received: Received, conversation: Conversation) -> None:
    asked = received.json if received.body.startswith(b"{") else {}
    if asked.get("stream"):
        await conversation.stream(*DRAWN)
    elif asked.get("model") == "dall-e-3":
        await conversation.answer(msgspec.json.encode({"created": 1, "data": [{"url": "https://x.example/1.png"}] * 2}))
    else:
        answer = {"created": 1, "size": "1024x1024", "quality": "medium", "data": [{"b64_json": PIXEL}]}
        await conversation.answer(msgspec.json.encode({**answer, "usage": IMAGE_USAGE}))


async def _judge(_: Received, conversation: Conversation) -> None:
    await conversation.answer(msgspec.json.encode(VERDICT))


async def _rank(received: Received, conversation: Conversation) -> None:
    results = [{"index": at, "relevance_score": 0.5} for at in range(len(received.json["documents"]))]
    meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 2}}
    await conversation.answer(msgspec.json.encode({"id": "r", "results": results, "meta": meta}))


Answer = Callable[[Received, Conversation], Awaitable[None]]
ANSWERS: Mapping[str, Answer] = {
    "/v1/moderations": _judge,
    "/v1/audio/transcriptions": _listen,
    "/v1/audio/translations": _listen,
    "/v1/audio/speech": _speak,
    "/v1/images/generations": _draw,
    "/v1/images/edits": _draw,
    "/v1/images/variations": _draw,
    "/v1/rerank": _rank,
}


@dataclass
class Provider:
    """The provider. ``instead`` answers in the place of what it would say."""

    upstream: Upstream = field(init=False)
    instead: Answer | None = None

    async def respond(self, received: Received, conversation: Conversation) -> None:
        """Answers by the path."""
        await (self.instead or ANSWERS[received.path])(received, conversation)

    @property
    def received(self) -> Received:
        """The last request that it got."""
        return self.upstream.requests[-1]

    def backend(self, **fields: Any) -> dict[str, Any]:
        """It as a policy file has it, with prices for everything."""
        operations = [
            "moderation", "transcription", "audio_translation", "speech", "image", "image_edit", "image_variation",
            "rerank",
        ]  # fmt: skip
        return {
            "use": "openai_compatible",
            "base_url": self.upstream.url,
            "operations": operations,
            "models": PRICED,
            **fields,
        }


PRICED: Mapping[str, Any] = {
    "omni-moderation-latest": {"price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 0}},
    "whisper-1": {"price": {"audio_usd_per_minute": 0.006}},
    "gpt-4o-transcribe": {
        "price": {"input_usd_per_mtok": 2.5, "output_usd_per_mtok": 10, "audio_input_usd_per_mtok": 6}
    },
    "tts-1": {"price": {"speech_usd_per_mchar": 15}},
    "gpt-4o-mini-tts": {"price": {"input_usd_per_mtok": 0.6, "output_usd_per_mtok": 12}},
    "dall-e-3": {"price": {"image_usd": {"1024x1024": 0.04, "1024x1024 hd": 0.08}}},
    "gpt-image-1.5": {
        "price": {
            "input_usd_per_mtok": 5,
            "output_usd_per_mtok": 10,
            "image_input_usd_per_mtok": 8,
            "image_output_usd_per_mtok": 32,
        }
    },
    "rerank-v3.5": {"price": {"search_usd": 0.002}},
}


@pytest.fixture
async def provider(serve: Any) -> AsyncIterator[Provider]:
    """The provider, listening."""
    provider = Provider()
    async with serve(provider.respond) as upstream:
        provider.upstream = upstream
        yield provider


@pytest.fixture
def open_front(start_gateway: Any, provider: Provider) -> Callable[..., Awaitable[Any]]:
    """Starts a gateway before the provider."""

    async def start(policy: Mapping[str, Any] | None = None, **settings: Any) -> Any:
        routes = {model: {"models": [model], "targets": [f"provider/{model}"]} for model in PRICED}
        whole = {"backends": {"provider": provider.backend()}, "routes": routes, **(policy or {})}
        return await start_gateway(whole, **settings)

    return start
