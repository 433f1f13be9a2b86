"""Answers as upstreams write them, one script for each client format: what the contract suite plays to all of them."""

import json
from typing import Any, Protocol

from gateway.price import Usage
from gateway.types import Operation
from gateway.wire.anthropic_usage import anthropic_usage
from gateway.wire.ollama_counts import written_counts
from gateway.wire.openai_answer import Answered, StreamWriter, whole_answer

COUNTS = Usage(prompt_tokens=5, output_tokens=7, cached_tokens=3, reasoning_tokens=2)
DURATIONS = {"total_duration": 4, "load_duration": 1, "prompt_eval_duration": 1, "eval_duration": 2}


class Script(Protocol):
    """One answer's events and bodies. ``ended`` has the counts, where they are no event of their own."""

    def opened(self) -> bytes:
        """Who speaks."""
        ...

    def text(self, text: str) -> bytes:
        """More text."""
        ...

    def ended(self) -> bytes:
        """The end of the text, with its reason: it stopped by itself."""
        ...

    def done(self) -> bytes:
        """The end mark."""
        ...

    def whole(self, text: str) -> bytes:
        """A body that was cut for its length."""
        ...


class OpenAIScript:
    """Chat and completions."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self.writer = StreamWriter(operation, "id", "m", 1)

    def opened(self) -> bytes:
        """See ``Script``."""
        return self.writer.opening(0)

    def text(self, text: str) -> bytes:
        """See ``Script``."""
        return self.writer.text(0, text)

    def ended(self) -> bytes:
        """See ``Script``: the counts are an event of their own, which not everybody gets."""
        return self.writer.finish(0, "stop")

    def done(self) -> bytes:
        """See ``Script``."""
        return self.writer.done()

    def whole(self, text: str) -> bytes:
        """See ``Script``."""
        return whole_answer(self._operation, "id", "m", 1, [Answered(text, "length")], COUNTS)


class AnthropicScript:
    """Anthropic's messages."""

    def __init__(self, model: str = "m", usage: Usage = COUNTS) -> None:
        self._head = {"id": "msg_1", "type": "message", "role": "assistant", "model": model}
        self._usage = anthropic_usage(usage)

    def opened(self) -> bytes:
        """See ``Script``: the prompt is counted, and a token that is not there yet."""
        usage = {**self._usage, "output_tokens": 1}
        message = {**self._head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        block = {"type": "text", "text": ""}
        return _event("message_start", message=message) + _event("content_block_start", index=0, content_block=block)

    def text(self, text: str) -> bytes:
        """See ``Script``."""
        return _event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})

    def ended(self, reason: str = "end_turn") -> bytes:
        """See ``Script``."""
        delta = {"stop_reason": reason, "stop_sequence": None}
        return _event("content_block_stop", index=0) + _event("message_delta", delta=delta, usage=self._usage)

    def done(self) -> bytes:
        """See ``Script``."""
        return _event("message_stop")

    def whole(self, text: str) -> bytes:
        """See ``Script``."""
        content = [{"type": "text", "text": text}]
        end = {"stop_reason": "max_tokens", "stop_sequence": None, "usage": self._usage}
        return json.dumps({**self._head, "content": content, **end}).encode()


class OllamaScript:
    """Ollama's chats and generations: the last line has the reason and the counts, and is the end mark, too."""

    def __init__(self, *, chat: bool, model: str = "m", usage: Usage = COUNTS) -> None:
        self._chat = chat
        self._head = {"model": model, "created_at": "2026-11-30T12:00:00.000000Z"}
        self._counts = {**DURATIONS, **written_counts(usage)}

    def opened(self) -> bytes:
        """See ``Script``: every line says who speaks."""
        return b""

    def text(self, text: str) -> bytes:
        """See ``Script``."""
        return self._line(text, done=False)

    def ended(self, reason: str = "stop") -> bytes:
        """See ``Script``."""
        return self._line("", done=True, done_reason=reason, **self._counts)

    def done(self) -> bytes:
        """See ``Script``."""
        return b""

    def whole(self, text: str) -> bytes:
        """See ``Script``."""
        return self._line(text, done=True, done_reason="length", **self._counts).rstrip()

    def _line(self, text: str, **fields: Any) -> bytes:
        said: Any = {"message": {"role": "assistant", "content": text}} if self._chat else {"response": text}
        line = {**self._head, **said, **fields}
        return json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


SCRIPTS: dict[Operation, Script] = {
    Operation.CHAT: OpenAIScript(Operation.CHAT),
    Operation.COMPLETION: OpenAIScript(Operation.COMPLETION),
    Operation.MESSAGES: AnthropicScript(),
    Operation.OLLAMA_CHAT: OllamaScript(chat=True),
    Operation.OLLAMA_GENERATE: OllamaScript(chat=False),
}


def _event(kind: str, **fields: Any) -> bytes:
    data = json.dumps({"type": kind, **fields}, separators=(",", ":"), ensure_ascii=False).encode()
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)
