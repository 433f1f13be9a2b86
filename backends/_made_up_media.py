"""Made-up answers of what is passed on: verdicts, transcripts, sound, pictures, an order of documents."""

import base64
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from backends._made_up import words_of
from gateway.types import Call, Operation
from gateway.wire.sse import frame

_PIXEL = base64.b64decode(
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
"""A picture of one pixel."""
_SOUND_BYTES_PER_S = 16_000
_AUDIO_TOKENS_PER_S = 10
_MUSIC = b"ID3\x04\x00\x00\x00\x00\x00\x00"


class Media(NamedTuple):
    """An answer: what it says that it is, and its bytes piece by piece."""

    content_type: str
    pieces: Iterator[bytes]


def made_up_media(call: Call, text: str) -> Media:
    """The answer to a call whose request has ``units``; ``text`` is what is heard or spoken in it."""
    return _ANSWERS[call.request.arrival.operation](call, text)


def _moderated(call: Call, text: str) -> Media:
    del text
    verdict = {"flagged": False, "categories": {"violence": False}, "category_scores": {"violence": 0.0}}
    return _json({"id": f"modr-{call.request.arrival.id}", "model": call.model, "results": [verdict]})


def _heard(call: Call, text: str) -> Media:
    form = call.request.form
    seconds = max((form.file_bytes if form is not None else 0) / _SOUND_BYTES_PER_S, 1)
    if not call.request.stream:
        return _json({"text": text, "usage": {"type": "duration", "seconds": seconds}})
    words = words_of(text, len(text.split()))
    said: list[dict[str, Any]] = [{"type": "transcript.text.delta", "delta": word} for word in words]
    heard_tokens = round(_AUDIO_TOKENS_PER_S * seconds)
    usage = {
        "type": "tokens",
        "input_tokens": heard_tokens,
        "input_token_details": {"audio_tokens": heard_tokens, "text_tokens": 0},
        "output_tokens": len(words),
        "total_tokens": heard_tokens + len(words),
    }
    return _events([*said, {"type": "transcript.text.done", "text": text, "usage": usage}])


def _spoken(call: Call, text: str) -> Media:
    sounds = [_MUSIC, *(f"{word} ".encode() for word in text.split())]
    if not call.request.stream:
        return Media("audio/mpeg", iter(sounds))
    said: list[dict[str, Any]] = [
        {"type": "speech.audio.delta", "audio": base64.b64encode(sound).decode()} for sound in sounds
    ]
    tokens = {"input_tokens": call.request.prompt_bytes // 4, "output_tokens": len(sounds)}
    usage = {**tokens, "total_tokens": sum(tokens.values())}
    return _events([*said, {"type": "speech.audio.done", "usage": usage}])


def _drawn(call: Call, text: str) -> Media:
    del text
    units = call.request.units
    picture = {"b64_json": base64.b64encode(_PIXEL).decode()}
    wanted = units.images if units is not None and units.images else 1
    if not call.request.stream:
        return _json({"created": 1, "data": [picture] * wanted})
    return _events([{"type": "image_generation.completed", **picture, "created_at": 1}] * wanted)


def _ranked(call: Call, text: str) -> Media:
    del text
    units = call.request.units
    documents = units.documents if units is not None and units.documents else 0
    results = [{"index": at, "relevance_score": 1 / (at + 1)} for at in range(documents)]
    billed = {"search_units": -(-documents // 100)}
    return _json({"id": call.request.arrival.id, "results": results, "meta": {"billed_units": billed}})


def _json(answer: Any) -> Media:
    body = msgspec.json.encode(answer)
    middle = len(body) // 2
    return Media("application/json", iter((body[:middle], body[middle:])))


def _events(events: list[dict[str, Any]]) -> Media:
    return Media("text/event-stream", (frame(msgspec.json.encode(event)) for event in events))


_ANSWERS: Mapping[Operation, Callable[[Call, str], Media]] = MappingProxyType(
    {
        Operation.MODERATION: _moderated,
        Operation.TRANSCRIPTION: _heard,
        Operation.TRANSLATION: _heard,
        Operation.SPEECH: _spoken,
        Operation.IMAGE: _drawn,
        Operation.IMAGE_EDIT: _drawn,
        Operation.IMAGE_VARIATION: _drawn,
        Operation.RERANK: _ranked,
    }
)
