"""Writes OpenAI answers for backends that make the answer themselves: whole bodies and the events of a stream."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from gateway.price import Usage
from gateway.types import Operation
from gateway.wire.openai_usage import PredictionTokens, usage_object
from gateway.wire.sse import frame

_ENCODE = msgspec.json.Encoder().encode
DONE = frame(b"[DONE]")

_NOTHING: Mapping[str, Any] = {}
_NO_PREDICTION = PredictionTokens()


class Called(NamedTuple):
    """A tool call; ``arguments`` is JSON text. In a stream, what goes on with one has neither id nor name.

    Of a ``custom`` tool, the arguments are its input, which is any text.
    """

    id: str
    name: str
    arguments: str
    custom: bool = False


class Answered(NamedTuple):
    """A choice of a whole answer. ``logprobs`` is what the format has under that name, or ``None``.

    ``thinking_blocks`` are the thoughts one by one, in Anthropic's form, where their maker wants to see them again.
    ``stop_reason`` is the client's string that ended it, under the name that vLLM gave it.
    """

    text: str
    reason: str
    reasoning: str = ""
    calls: Sequence[Called] = ()
    logprobs: Any = None
    refusal: str = ""
    thinking_blocks: Sequence[Any] = ()
    stop_reason: str = ""


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

    def text(self, choice: int, text: str, logprobs: Any = None) -> bytes:
        """An event with more text, and with the log-probabilities of its tokens where there are any."""
        content = b'"delta":{"content":%b}' if self._chat else b'"text":%b'
        told = b"null" if logprobs is None else _ENCODE(logprobs)
        return self._choice(choice, content % _ENCODE(text), b"null", told)

    def reasoning(self, choice: int, text: str) -> bytes:
        """An event with more of what the model thinks; only chats have a place for it."""
        return self._choice(choice, b'"delta":{"reasoning_content":%b}' % _ENCODE(text), b"null")

    def other(self, choice: int, name: str, value: Any) -> bytes:
        """An event with another field of a chat's delta (``refusal``, ``thinking_blocks``...)."""
        return self._choice(choice, b'"delta":{%b:%b}' % (_ENCODE(name), _ENCODE(value)), b"null")

    def call(self, choice: int, index: int, call: Called) -> bytes:
        """An event that begins a tool call, where it has an id, or goes on with its arguments."""
        kind, said = _said_by(call)
        entry: dict[str, Any] = {"index": index, kind: said}
        if call.id:
            entry = {"index": index, "id": call.id, "type": kind, kind: {"name": call.name, **said}}
        return self._choice(choice, b'"delta":{"tool_calls":[%b]}' % _ENCODE(entry), b"null")

    def finish(self, choice: int, reason: str, beside: Mapping[str, Any] = _NOTHING, *, stop_reason: str = "") -> bytes:
        """The event that ends a choice (``stop``, ``length``...), with further fields ``beside`` its choices."""
        told = _ENCODE(reason)
        if stop_reason:
            told += b',"stop_reason":' + _ENCODE(stop_reason)
        event = self._choice(choice, b'"delta":{}' if self._chat else b'"text":""', told)
        return b"%b,%b\n\n" % (event.rstrip()[:-1], _ENCODE(beside)[1:]) if beside else event

    def usage(self, usage: Usage, prediction: PredictionTokens = _NO_PREDICTION) -> bytes:
        """The event with the counts, which belongs after all choices."""
        return frame(b'%b,"choices":[],"usage":%b}' % (self._head, _ENCODE(usage_object(usage, prediction))))

    def done(self) -> bytes:
        """The end mark."""
        return DONE

    def _choice(self, choice: int, content: bytes, reason: bytes, logprobs: bytes = b"null") -> bytes:
        fields = (self._head, choice, content, logprobs, reason)
        return b'data: %b,"choices":[{"index":%d,%b,"logprobs":%b,"finish_reason":%b}]}\n\n' % fields


def whole_answer(
    operation: Operation,
    id: str,  # noqa: A002  # the wire's own name
    model: str,
    created_unix_s: int,
    choices: Sequence[Answered],
    usage: Usage | None,
    *,
    prediction: PredictionTokens = _NO_PREDICTION,
    beside: Mapping[str, Any] = _NOTHING,
) -> bytes:
    """A whole answer, with further fields ``beside`` those that it always has."""
    chat = operation is Operation.CHAT
    return _ENCODE(
        {
            "id": id,
            "object": "chat.completion" if chat else "text_completion",
            "created": int(created_unix_s),
            "model": model,
            "choices": [_message(at, it) if chat else _text(at, it) for at, it in enumerate(choices)],
            **({"usage": usage_object(usage, prediction)} if usage is not None else {}),
            **beside,
        }
    )


def _text(index: int, choice: Answered) -> dict[str, Any]:
    return {"index": index, "text": choice.text, "logprobs": choice.logprobs, **_end(choice)}


def _end(choice: Answered) -> dict[str, str]:
    end = {"finish_reason": choice.reason}
    return {**end, "stop_reason": choice.stop_reason} if choice.stop_reason else end


def _message(index: int, choice: Answered) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": choice.text, "refusal": choice.refusal or None}
    if choice.refusal:
        message["content"] = choice.text or None
    if choice.reasoning:
        message["reasoning_content"] = choice.reasoning
    if choice.thinking_blocks:
        message["thinking_blocks"] = choice.thinking_blocks
    if choice.calls:
        message["content"] = choice.text or None
        message["tool_calls"] = [_call(call) for call in choice.calls]
    return {"index": index, "message": message, "logprobs": choice.logprobs, **_end(choice)}


def _call(call: Called) -> dict[str, Any]:
    kind, said = _said_by(call)
    return {"id": call.id, "type": kind, kind: {"name": call.name, **said}}


def _said_by(call: Called) -> tuple[str, dict[str, str]]:
    """The type of a call, and what it says."""
    return ("custom", {"input": call.arguments}) if call.custom else ("function", {"arguments": call.arguments})
