"""A chat's stream that broke in the middle: what it has said, the request that goes on with it, and the seam.

The words so far become the assistant's last message, with vLLM's ``continue_final_message``. What is not mere text of
one choice (a tool call, a thought, a refusal) is never continued, nor is an answer that had come to its end.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation import Message
from gateway.price import Usage
from gateway.types import ChatRequest, Operation
from gateway.wire.openai_output import is_nothing
from gateway.wire.openai_usage import read_usage, usage_object
from gateway.wire.sse import frame
from gateway.wire.upstream_json import objects

_BOUNDS = ("max_tokens", "max_completion_tokens")
_UNTOLD = ("response_format", "structured_outputs", "continue_final_message", "logprobs")
"""Fields of requests whose second half is not told by its words alone: a form that would begin anew, and the like."""


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: Raw = Raw()
    reasoning: Raw = Raw()
    refusal: Raw = Raw()
    tool_calls: Raw = Raw()
    function_call: Raw = Raw()
    audio: Raw = Raw()


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    id: str = ""
    created: int = 0
    choices: list[_Choice] = []


class Beginning(msgspec.Struct, frozen=True):
    """The words of a broken answer, and the envelope that the client knows it by."""

    id: str
    created_unix_s: int
    text: str


_CHUNK = msgspec.json.Decoder(_Chunk)
_FIELDS = msgspec.json.Decoder(dict[str, Any]).decode
_ENCODE = msgspec.json.Encoder().encode


def may_continue(request: ChatRequest) -> bool:
    """Whether the second half of the answer could be another backend's: a streamed chat with one choice of text."""
    plain = request.arrival.operation is Operation.CHAT and request.stream and request.n == 1
    return plain and all(is_nothing(Raw(bytes(request.raw.get(name, b"")))) for name in _UNTOLD)


def read_beginning(frames: bytes) -> Beginning | None:
    """What the events say that a client was sent; ``None`` where nobody could go on with it."""
    answer_id, created_unix_s, texts = "", 0, []
    for block in frames.split(b"\n\n"):
        if not block.startswith(b"data: "):
            continue
        try:
            chunk = _CHUNK.decode(block.removeprefix(b"data: ").replace(b"\ndata: ", b"\n"))
        except (msgspec.DecodeError, RecursionError):  # the end mark, an error, or what we do not know
            return None
        answer_id, created_unix_s = answer_id or chunk.id, created_unix_s or chunk.created
        for choice in chunk.choices:
            delta = choice.delta or _Delta()
            if choice.index or choice.finish_reason or not _is_mere_text(delta):
                return None
            texts.append(delta.content or "")
    text = "".join(texts)
    return Beginning(answer_id, created_unix_s, text) if text.strip() else None


def continued(request: ChatRequest, text: str, *, used_tokens: int) -> ChatRequest | None:
    """The request that asks for the rest; ``None`` where the answer may not be longer than it is.

    Args:
        request: what the client asked for.
        text: the answer so far.
        used_tokens: about how many tokens that is, which are taken off the client's bound.
    """
    left_tokens = None if request.max_tokens is None else request.max_tokens - used_tokens
    if left_tokens is not None and left_tokens < 1:
        return None
    turn = b"," + _ENCODE({"role": "assistant", "content": text}) + b"]"
    changes = {
        "messages": Raw(bytes(request.raw["messages"]).rstrip()[:-1] + turn),
        "continue_final_message": Raw(b"true"),
        "add_generation_prompt": Raw(b"false"),
    }
    bounded = [name for name in _BOUNDS if not is_nothing(Raw(bytes(request.raw.get(name, b""))))]
    changes |= {name: Raw(b"%d" % left_tokens) for name in bounded if left_tokens is not None}
    return msgspec.structs.replace(
        request,
        messages=(*request.messages, Message(role="assistant", content=text)),
        max_tokens=left_tokens,
        prompt_bytes=request.prompt_bytes + len(text.encode()),
        raw={**request.raw, **changes},
        translation=None,
    )


class Seam:
    """Makes the rest of an answer one with its beginning, event by event.

    The envelope stays what the client knows, the role is not told again, and the usage event counts what was used
    before, too. The last chunk says by whom it was continued: ``"headrace": {"continued_by": "..."}``.

    Args:
        beginning: of the answer.
        backend: who goes on with it.
        before: what earlier attempts have used.
    """

    def __init__(self, beginning: Beginning, backend: str, before: Usage) -> None:
        self._beginning = beginning
        self._backend = backend
        self._before = before

    def join(self, frames: bytes) -> bytes:
        """Whole events as they came, as they go on; possibly none."""
        return b"".join([self._event(block) for block in frames.split(b"\n\n") if block])

    def _event(self, block: bytes) -> bytes:
        data = block.removeprefix(b"data: ").replace(b"\ndata: ", b"\n")
        try:
            chunk = _FIELDS(data)
        except (msgspec.DecodeError, RecursionError):  # the end mark, or what we do not know
            return block + b"\n\n"
        choices = objects(chunk.get("choices"))
        if choices and not any(map(_says_something, choices)):
            return b""
        chunk |= {"id": self._beginning.id, "created": self._beginning.created_unix_s}
        if any(choice.get("finish_reason") for choice in choices):
            chunk["headrace"] = {"continued_by": self._backend}
        usage = read_usage(chunk.get("usage"))
        if usage is not None:
            chunk["usage"] |= _counts(usage_object(together(self._before, usage)))
        return frame(_ENCODE(chunk))


def together(one: Usage, other: Usage) -> Usage:
    """What two attempts used."""
    return Usage(
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
        reasoning_tokens=one.reasoning_tokens + other.reasoning_tokens,
        cache_write_tokens=one.cache_write_tokens + other.cache_write_tokens,
        estimated=one.estimated or other.estimated,
    )


def _counts(usage: Mapping[str, Any]) -> dict[str, Any]:
    return {name: usage[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}


def _is_mere_text(delta: _Delta) -> bool:
    others = (
        delta.reasoning_content,
        delta.reasoning,
        delta.refusal,
        delta.tool_calls,
        delta.function_call,
        delta.audio,
    )
    return all(not value or is_nothing(value) for value in others)


def _says_something(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta")
    says = any(value for name, value in delta.items() if name != "role") if isinstance(delta, dict) else delta
    return bool(choice.get("finish_reason") or says)
