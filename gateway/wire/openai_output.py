"""What an OpenAI answer shows: the fields that hold output, alike in a chat's message, its deltas and a completion."""

import msgspec
from msgspec import Raw

_NOTHING = frozenset((b"", b"null", b'""', b"[]", b"{}"))


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
    output = output or _SILENT
    total = 0
    for value in (
        text,
        output.content,
        output.reasoning_content,
        output.reasoning,
        output.refusal,
        output.tool_calls,
        output.function_call,
        output.audio,
    ):
        if value and not is_nothing(value):
            total += max(len(value) - 2, 1)
    return total
