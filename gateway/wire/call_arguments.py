"""The arguments of a call, which OpenAI's chat has as text, as the JSON object that other formats want."""

from typing import Any

import msgspec
from msgspec import Raw

_OBJECT = msgspec.json.Decoder(dict[str, Raw])


def as_object(text: str) -> Raw | None:
    """The text as the JSON object that it is, byte for byte; ``None`` where it is none."""
    try:
        _OBJECT.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return Raw(text.encode())


def arguments_object(text: str) -> Raw | dict[str, Any]:
    """The arguments; what a model wrote that is no object stands in one, so that it can still see its mistake."""
    found = as_object(text)
    return {"malformed_arguments": text} if found is None else found
