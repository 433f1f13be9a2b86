"""One event of an OpenAI stream, chat or completion, taken apart as far as a look at it needs."""

from typing import Any

import msgspec
from msgspec import Raw

from gateway.errors import UpstreamInvalid
from gateway.wire.openai_output import Output


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
    usage: Any = None
    error: Any = None
    model: Any = None
    x_groq: Any = None
    obfuscation: Raw = Raw()


_CHUNK = msgspec.json.Decoder(Chunk)


def read_chunk(data: bytes) -> Chunk:
    """The chunk in an event's data.

    Raises:
        UpstreamInvalid: it is none.
    """
    try:
        return _CHUNK.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UpstreamInvalid("the upstream sent an event that is no chunk of an answer") from error
