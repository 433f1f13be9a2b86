"""Writes OpenAI answers for backends that make the answer themselves: whole bodies and the events of a stream."""

from collections.abc import Sequence
from typing import Any

import msgspec

from gateway.types import Operation, Usage
from gateway.wire.openai_usage import usage_object
from gateway.wire.sse import frame

_ENCODE = msgspec.json.Encoder().encode
DONE = frame(b"[DONE]")


class StreamWriter:
    """Writes the events of one streamed answer, each ready to send.

    The envelope is encoded once: an event costs the encoding of its text and two concatenations.

    Args:
        operation: which endpoint's shape to write.
        id: the answer's id, the same in every event.
        model: the name that the client sees.
        created_unix_s: when the answer began, in seconds since the epoch.
    """

    __slots__ = ("_chat", "_head")

    def __init__(self, operation: Operation, id: str, model: str, created_unix_s: int) -> None:  # noqa: A002  # the wire's own name
        self._chat = operation is Operation.CHAT
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        envelope = {"id": id, "object": kind, "created": int(created_unix_s), "model": model}
        self._head = _ENCODE(envelope)[:-1]

    def opening(self, choice: int) -> bytes:
        """The event that says who speaks; empty where the format has none."""
        if not self._chat:
            return b""
        return self._choice(choice, b'"delta":{"role":"assistant","content":""}', b"null")

    def text(self, choice: int, text: str) -> bytes:
        """An event with more text."""
        if self._chat:
            return self._choice(choice, b'"delta":{"content":%b}' % _ENCODE(text), b"null")
        return self._choice(choice, b'"text":%b' % _ENCODE(text), b"null")

    def finish(self, choice: int, reason: str) -> bytes:
        """The event that ends a choice (``stop``, ``length``...)."""
        return self._choice(choice, b'"delta":{}' if self._chat else b'"text":""', _ENCODE(reason))

    def usage(self, usage: Usage) -> bytes:
        """The event with the counts, which belongs after all choices."""
        return frame(b'%b,"choices":[],"usage":%b}' % (self._head, _ENCODE(usage_object(usage))))

    def done(self) -> bytes:
        """The end mark."""
        return DONE

    def _choice(self, choice: int, content: bytes, reason: bytes) -> bytes:
        fields = (self._head, choice, content, reason)
        return b'data: %b,"choices":[{"index":%d,%b,"logprobs":null,"finish_reason":%b}]}\n\n' % fields


def whole_answer(
    operation: Operation,
    id: str,  # noqa: A002  # the wire's own name
    model: str,
    created_unix_s: int,
    choices: Sequence[tuple[str, str]],
    usage: Usage,
) -> bytes:
    """A whole answer; each choice is its text and its finish reason."""
    chat = operation is Operation.CHAT
    return _ENCODE(
        {
            "id": id,
            "object": "chat.completion" if chat else "text_completion",
            "created": int(created_unix_s),
            "model": model,
            "choices": [_choice(chat, index, text, reason) for index, (text, reason) in enumerate(choices)],
            "usage": usage_object(usage),
        }
    )


def _choice(chat: bool, index: int, text: str, reason: str) -> dict[str, Any]:  # noqa: FBT001  # private, one call
    content = {"message": {"role": "assistant", "content": text, "refusal": None}} if chat else {"text": text}
    return {"index": index, **content, "logprobs": None, "finish_reason": reason}
