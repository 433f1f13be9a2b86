"""A prompt as bytes, for digests: the same words in the same places give the same bytes, and nothing else does.

Every turn is laid out by itself, so that the bytes of a conversation are those of the turn before and more.
"""

from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256

import msgspec

from gateway.conversation import Message, Part, Prompt
from gateway.types import ChatRequest

# UTF-8 never uses these bytes, so no content can pose as the end of a field or as another role.
TURN = b"\xff"
FIELD = b"\xfe"
PART = b"\xfd"


def opening_bytes(request: ChatRequest) -> bytes:
    """What stands before the first turn: tool definitions, where chat templates put them."""
    raw = request.raw
    if "tools" not in raw and "functions" not in raw:
        return b""
    return b"".join([FIELD + bytes(raw[name]) for name in ("tools", "functions") if name in raw])


def message_bytes(message: Message) -> bytes:
    """One turn; images and other media enter as their digest."""
    content = message.content
    if isinstance(content, str) and message.name is None and message.tool_call_id is None and not message.tool_calls:
        return _role(message.role) + utf8(content)  # what most turns are
    return b"".join(_pieces(message))


def prompt_bytes(prompt: Prompt) -> bytes:
    """The prompt of a completion. Text goes on where it stopped, without a length before it."""
    return b"".join(_prompt(prompt))


def utf8(text: str) -> bytes:
    """The text's bytes. JSON can carry a lone surrogate, and a digest need not be readable."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


@lru_cache(maxsize=64)
def _role(role: str) -> bytes:
    return TURN + utf8(role) + FIELD


def _prompt(prompt: Prompt) -> Iterator[bytes]:
    if isinstance(prompt, str):
        yield utf8(prompt)
    elif prompt and isinstance(prompt[0], int):
        yield FIELD  # else the tokens 1 2 would be the text "1 2"
        yield from (b"%d " % token for token in prompt)
    else:
        for one in prompt:
            yield from _prompt(one)  # type: ignore[arg-type]  # what is not flat holds texts or lists of tokens
            yield TURN


def _pieces(message: Message) -> Iterator[bytes]:
    yield TURN
    yield utf8(message.role)
    if message.name is not None:
        yield FIELD + b"name" + FIELD + utf8(message.name)
    if message.tool_call_id is not None:
        yield FIELD + b"tool_call_id" + FIELD + utf8(message.tool_call_id)
    yield FIELD
    if isinstance(message.content, str):
        yield utf8(message.content)
    elif message.content is not None:
        for part in message.content:
            yield _part(part)
    else:
        yield utf8(message.text())
    for call in message.tool_calls or ():
        yield FIELD + utf8(call.id)
        if call.function is not None:
            yield FIELD.join((b"", utf8(call.function.name), utf8(call.function.arguments)))


def _part(part: Part) -> bytes:
    if part.text is not None:
        return utf8(part.text)
    if part.refusal is not None:
        return PART + utf8(part.refusal)
    media = msgspec.json.encode((part.type, part.image_url, part.input_audio, part.file))
    return PART + sha256(media, usedforsecurity=False).hexdigest().encode()
