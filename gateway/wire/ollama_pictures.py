"""Ollama's ``images``: base64 without a word on what it holds, which the first bytes tell. Sound comes there, too."""

import base64
import binascii
from typing import Any

from gateway.conversation import Part
from gateway.errors import InvalidRequest

_HEAD_CHARS = 16
_KINDS = ((b"\x89PNG", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"), (b"BM", "image/bmp"))


def picture(data: str, where: str) -> Part:
    """What ``data`` holds, as a part of a chat's message.

    Raises:
        InvalidRequest: it does not begin as base64; ``where`` is its path.
    """
    head = data[:_HEAD_CHARS]
    try:
        first = base64.b64decode(head + "=" * (-len(head) % 4), validate=True)
    except (binascii.Error, ValueError):
        first = b""
    if not first:
        raise InvalidRequest(f"{where} must be base64, without an address before it", param=where)
    if first.startswith(b"RIFF") and first[8:12] == b"WAVE":
        return Part(type="input_audio", input_audio={"data": data, "format": "wav"})
    kind = (
        "image/webp" if first.startswith(b"RIFF") else next((it for mark, it in _KINDS if first.startswith(mark)), "")
    )
    return Part(type="image_url", image_url={"url": f"data:{kind or 'image/png'};base64,{data}"})


def pictures(data: list[str] | None, where: str) -> tuple[Part, ...]:
    """All of a message's."""
    return tuple(
        picture(one, f"{where}.images[{at}]" if where else f"images[{at}]") for at, one in enumerate(data or ())
    )


def part_fields(part: Part) -> dict[str, Any]:
    """The part as JSON has it."""
    fields = {"type": part.type, "text": part.text, "image_url": part.image_url, "input_audio": part.input_audio}
    return {name: value for name, value in fields.items() if value is not None}
