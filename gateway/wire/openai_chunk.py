"""One event of an OpenAI stream, chat or completion, taken apart as far as a look at it needs."""

import re
from typing import Any

import msgspec
from msgspec import Raw

from gateway.errors import UpstreamInvalid
from gateway.price import Usage
from gateway.wire.openai_output import Output
from gateway.wire.openai_usage import UsualUsage, read_usage

MATTERS = re.compile(rb'"(?:usage|finish_reason|tool_calls|error)"\s*:\s*[^n\s]')
"""What may say more than text; it may stand inside text, too."""


class Choice(msgspec.Struct):
    """What a chunk says of one choice."""

    index: Any = 0
    delta: Output | None = None
    text: Raw = Raw()
    finish_reason: Any = None

    @property
    def place(self) -> int:
        """Which choice it is; the first, where that is not said."""
        return self.index if type(self.index) is int else 0


class Chunk(msgspec.Struct):
    """The event. ``obfuscation`` is what OpenAI puts there so that the length of an event does not tell its text."""

    id: Any = None
    created: Any = None
    choices: list[Choice] | None = None
    usage: UsualUsage | None = None
    error: Any = None
    model: Any = None
    x_groq: Any = None
    obfuscation: Raw = Raw()

    def counted(self) -> Usage | None:
        """What it says was used, if anything."""
        return self.usage.counted() if self.usage is not None else None


class _OddChunk(Chunk):
    usage: Any = None

    def counted(self) -> Usage | None:
        """See ``Chunk.counted``: read with tolerance."""
        return read_usage(self.usage)


_CHUNK = msgspec.json.Decoder(Chunk)
_ODD_CHUNK = msgspec.json.Decoder(_OddChunk)
_LIST = msgspec.json.Decoder(list[Any])


def matters(data: bytes) -> bool:
    """Whether an event has to be looked into: it may say more than text, or is cut short."""
    return not data.endswith(b"}") or MATTERS.search(data) is not None


def read_chunk(data: bytes) -> Chunk:
    """The chunk in an event's data.

    Raises:
        UpstreamInvalid: it is none.
    """
    try:
        return _CHUNK.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return _read_oddly(data)


def _read_oddly(data: bytes) -> Chunk:
    """The same, where its usage is not as most write it."""
    try:
        return _ODD_CHUNK.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UpstreamInvalid("the upstream sent an event that is no chunk of an answer") from error


def read_tool_calls(value: Raw) -> list[Any]:
    """The entries of a ``tool_calls``.

    Raises:
        UpstreamInvalid: it is no list.
    """
    try:
        return _LIST.decode(value)
    except msgspec.DecodeError as error:
        raise UpstreamInvalid("the upstream sent tool calls that are no list of them") from error
