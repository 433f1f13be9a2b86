"""OpenAI's error envelope: written from any of our errors, and read from whatever a provider sends in its place."""

import re
from typing import Any

import msgspec

from gateway.errors import HeadraceError, UpstreamError, UpstreamUnauthorised
from gateway.wire.sse import frame

_MAX_MESSAGE_CHARS = 1000
_MAX_WORD_CHARS = 100
_MAX_READ_BYTES = 64 * 1024
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_TAGS = re.compile(r"(?s)<(script|style)\b.*?(?:</\1\s*>|$)|<[^<>]*>")
_DECODER = msgspec.json.Decoder()


def error_body(error: HeadraceError) -> bytes:
    """The envelope ``{"error": {"message", "type", "param", "code"}}``.

    An upstream's own type and code survive, except where it refused our key: the client would think it was its own.
    """
    kind, code = error.type, error.code
    if isinstance(error, UpstreamError) and not isinstance(error, UpstreamUnauthorised):
        kind, code = error.upstream_type or kind, error.upstream_code or code
    fields = {"message": _plain(error.message, _MAX_MESSAGE_CHARS), "type": kind, "param": error.param, "code": code}
    return msgspec.json.encode({"error": fields})


def error_event(error: HeadraceError) -> bytes:
    """The envelope as an event of a stream: the shape that OpenAI's own clients raise on."""
    return frame(error_body(error))


def read_error(body: bytes) -> tuple[str, str | None, str | None, str | None]:
    """Message, type, code and param of an error that a provider sent, in any of the usual shapes.

    ``{"error": {...}}``, ``{"error": "text"}``, ``{"message": ...}``, ``{"detail": ...}``, a list around one of these,
    HTML, plain text, or nothing. The words are bounded and have their control characters escaped; they may still name
    hosts and secrets, which ``gateway.wire.redaction`` takes out. The message is empty where there was none.
    """
    if len(body) > _MAX_READ_BYTES:
        return _from_text(body[:_MAX_READ_BYTES])
    try:
        value = _DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return _from_text(body)
    return error_words(value)


def error_words(value: Any) -> tuple[str, str | None, str | None, str | None]:
    """Message, type, code and param of an error that is already JSON: what ``read_error`` does after parsing."""
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, str):
        return _plain(value, _MAX_MESSAGE_CHARS), None, None, None
    if not isinstance(value, dict):
        return "", None, None, None
    inner = value.get("error")
    if isinstance(inner, dict):
        value = inner
    elif isinstance(inner, str) and inner and not isinstance(value.get("message"), str):
        value = {**value, "message": inner}
    param = _word(value.get("param")) or _word(_place(value))
    return _message(value), _word(value.get("type")), _word(value.get("code")), param


def is_moderated(body: bytes) -> bool:
    """Whether an error says that the prompt was flagged, as OpenRouter does with a status that others have for keys."""
    if b'"reasons"' not in body:
        return False
    try:
        value = _DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False
    error = value.get("error") if isinstance(value, dict) else None
    metadata = error.get("metadata") if isinstance(error, dict) else None
    return isinstance(metadata, dict) and bool(metadata.get("reasons"))


def _message(fields: dict[str, Any]) -> str:
    for name in ("message", "detail", "msg", "title"):
        text = fields.get(name)
        if isinstance(text, list) and text:
            text = text[0]
        if isinstance(text, str) and text:
            return _plain(text, _MAX_MESSAGE_CHARS)
        if isinstance(text, dict):
            return _message(text)
    return ""


def _place(fields: dict[str, Any]) -> str | None:
    """The field at fault as FastAPI says it, and Mistral with it: ``{"detail": [{"loc": ["body", "seed"]}]}``."""
    for name in ("detail", "message"):
        inner = fields.get(name)
        if isinstance(inner, list) and inner:
            inner = inner[0]
        if isinstance(inner, dict):
            place = inner.get("loc")
            return _path(place) if isinstance(place, list) else _place(inner)
    return None


def _path(place: list[Any]) -> str:
    """A place as a path into the body: ``messages[0].name``."""
    steps = place[1:] if place[:1] == ["body"] else place
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")


def _word(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        return None
    return _plain(str(value), _MAX_WORD_CHARS)


def _from_text(body: bytes) -> tuple[str, None, None, None]:
    text = body.decode("utf-8", "replace")
    if "<" in text:
        text = " ".join(_TAGS.sub(" ", text).split())
    return _plain(text.strip(), _MAX_MESSAGE_CHARS), None, None, None


def plain_message(text: str) -> str:
    """A message for people as it may go into any envelope: bounded, on one line, and always encodable."""
    return _plain(text, _MAX_MESSAGE_CHARS)


def _plain(text: str, max_chars: int) -> str:
    """Bounded, on one line, and always encodable."""
    if len(text) > max_chars:
        text = text[: max_chars - 1] + "…"
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
