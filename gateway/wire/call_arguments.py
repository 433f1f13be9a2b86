"""The arguments of a call, which OpenAI's chat has as text, as the JSON object that other formats want."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from gateway.wire.cannot_carry import cannot_carry

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


def called(call: Mapping[str, Any], where: str) -> tuple[str, str]:
    """The name of the function that one of a chat's calls calls, and its arguments' text.

    Raises:
        UpstreamRefused: it calls none; naming ``where`` it stands.
    """
    function = call.get("function")
    if call.get("type", "function") == "function" and isinstance(function, Mapping):
        name, arguments = function.get("name"), function.get("arguments") or "{}"
        if name and isinstance(name, str) and isinstance(arguments, str):
            return name, arguments
    raise cannot_carry(where)
