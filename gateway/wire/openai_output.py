"""What an OpenAI answer shows: the fields that hold output, alike in a chat's message, its deltas and a completion."""

import msgspec
from msgspec import Raw
from msgspec.structs import astuple

_NOTHING = frozenset((b"", b"null", b'""', b"[]", b"{}"))
_NOTHINGS_MOST_BYTES = max(map(len, _NOTHING))


class Output(msgspec.Struct, gc=False):
    """A ``message`` or a ``delta``. Values stay JSON: nothing here needs them decoded."""

    content: Raw = Raw()
    reasoning_content: Raw = Raw()
    reasoning: Raw = Raw()
    refusal: Raw = Raw()
    tool_calls: Raw = Raw()
    function_call: Raw = Raw()
    audio: Raw = Raw()


_SILENT = Output()


def is_nothing(value: Raw) -> bool:
    """Whether the JSON is absent, null or empty."""
    return bytes(value) in _NOTHING


def shown_bytes(output: Output | None, text: Raw) -> int:
    """The length in bytes, as JSON without its outer quotes, of all that a person or a program could see.

    ``text`` is a completion's field, beside the ``output`` that a chat has in its place.
    """
    total = 0
    for value in filter(None, (text, *astuple(output or _SILENT))):
        size_bytes = len(value)
        if size_bytes > _NOTHINGS_MOST_BYTES or not is_nothing(value):
            total += max(size_bytes - 2, 1)
    return total


def shown_text(output: Output | None, text: Raw) -> bytes:
    """The first JSON string of those with anything in it; empty where there is none."""
    for value in filter(None, (text, *astuple(output or _SILENT))):
        shown = bytes(value)
        if shown.startswith(b'"') and len(shown) > len(b'""'):
            return shown
    return b""
