"""Writes deltas as answers of Ollama's, to chats and to generations, streamed or whole.

A line for each piece, each with the moment at which it was written; a call is told whole, once its arguments are. The
last line has the reason, the counts, and how long it took by the gateway's own clock.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from gateway.errors import UpstreamInvalid
from gateway.price import Usage
from gateway.types import ChatRequest, Operation
from gateway.wire.anthropic_answer import counted_or_estimated
from gateway.wire.call_arguments import arguments_object
from gateway.wire.deltas import (
    AnswerEnd,
    AnswerStart,
    ChoiceFinish,
    Delta,
    ReasoningDelta,
    ReasoningSignature,
    RedactedReasoning,
    RefusalDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
    UsageReport,
)
from gateway.wire.ollama_counts import Stopwatch, written_counts
from gateway.wire.tool_calls import ArgumentsSoFar
from gateway.wire.translation import AnswerWriter, WriterOf

Fields = dict[str, Any]

_REASONS = {"tool_calls": "stop", "": "stop"}
_ENCODE = msgspec.json.Encoder().encode


def ollama_writer(now_s: Callable[[], float]) -> WriterOf:
    """What makes writers for an attempt that begins now, on a monotonic clock."""
    began_s = now_s()

    def writer_of(request: ChatRequest, streamed: bool) -> AnswerWriter:  # noqa: FBT001  # the door's signature
        watch = Stopwatch(request.arrival, now_s, began_s=began_s)
        return OllamaStreamWriter(request, watch) if streamed else OllamaWholeWriter(request, watch)

    return writer_of


class _Calls:
    """Calls under way, which are told when they are whole."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[ToolCallStart, list[str], ArgumentsSoFar]] = {}
        self._told: set[int] = set()

    def begin(self, start: ToolCallStart) -> None:
        self._open[start.index] = (start, [], ArgumentsSoFar())

    def grow(self, delta: ToolCallArguments) -> Fields | None:
        """The call, where this was the rest of it.

        Raises:
            UpstreamInvalid: it was told before.
        """
        if delta.index not in self._open:
            if delta.text.strip():
                raise UpstreamInvalid("the upstream went on with a tool call that was complete")
            return None
        _, pieces, so_far = self._open[delta.index]
        pieces.append(delta.text)
        so_far.feed(delta.text)
        return self._tell(delta.index) if so_far.complete else None

    def rest(self) -> list[Fields]:
        """Those that are still under way: there is no more of them."""
        return [self._tell(index) for index in sorted(self._open)]

    def _tell(self, index: int) -> Fields:
        start, pieces, _ = self._open.pop(index)
        text = "".join(pieces)
        arguments = arguments_object(text) if text.strip() else {}
        return {"id": start.id, "function": {"index": index, "name": start.name, "arguments": arguments}}


class _Answer:
    """What both have in common."""

    def __init__(self, request: ChatRequest, watch: Stopwatch) -> None:
        self._request = request
        self._watch = watch
        self._chat = request.arrival.operation is Operation.OLLAMA_CHAT
        self._model = request.model
        self._calls = _Calls()
        self._thought: list[str] = []
        self._reason = "stop"
        self._usage: Usage | None = None
        self._output_bytes = 0

    def pieces(self, delta: Delta) -> Fields:
        """What a delta says, by the names that a message has; nothing where it only says what is told at the end."""
        said: Fields = {}
        match delta:
            case AnswerStart() | UsageReport() | ChoiceFinish():
                self._note(delta)
            case TextDelta(text=text) | RefusalDelta(text=text):
                said = {"content": text}
            case ReasoningDelta(text=text):
                self._thought.append(text)
                said = {"thinking": text}
            case ReasoningSignature() | RedactedReasoning():
                said = {"thinking_blocks": [self._block(delta)]}
            case ToolCallStart():
                self._calls.begin(delta)
            case ToolCallArguments():
                call = self._calls.grow(delta)
                said = {"tool_calls": [call]} if call is not None else {}
            case AnswerEnd():
                rest = self._calls.rest()
                said = {"tool_calls": rest} if rest else {}
        if said:
            self._output_bytes += len(getattr(delta, "text", "").encode())
        return said

    def _note(self, delta: AnswerStart | UsageReport | ChoiceFinish) -> None:
        """Takes note of what is told with the last line, or with every one."""
        match delta:
            case AnswerStart(model=model):
                self._model = model or self._model
            case UsageReport(usage=usage):
                self._usage = usage
            case ChoiceFinish(reason=reason):
                self._reason = _REASONS.get(reason, reason)

    def _block(self, delta: ReasoningSignature | RedactedReasoning) -> Fields:
        """A thought that its maker wants to see again, in Anthropic's form."""
        if isinstance(delta, RedactedReasoning):
            return {"type": "redacted_thinking", "data": delta.data}
        text, self._thought = "".join(self._thought), []
        return {"type": "thinking", "thinking": text, "signature": delta.signature}

    def _line(self, said: Fields, beside: Fields) -> Fields:
        """A line that says it."""
        head = {"model": self._model, "created_at": self._watch.timestamp()}
        if self._chat:
            return {**head, "message": {"role": "assistant", "content": "", **said}, **beside}
        content = {"response": said.pop("content", "")}
        return {**head, **content, **said, **beside}

    def _end(self) -> Fields:
        """What the last line says of the answer."""
        usage = counted_or_estimated(self._usage, self._request, self._output_bytes)
        return {"done": True, "done_reason": self._reason, **self._watch.durations(), **written_counts(usage)}


class OllamaStreamWriter(_Answer):
    """See ``AnswerWriter``."""

    def write(self, deltas: Sequence[Delta]) -> bytes:
        """See ``AnswerWriter.write``."""
        return b"".join([self._lines(delta) for delta in deltas])

    def _lines(self, delta: Delta) -> bytes:
        said = self.pieces(delta)
        lines = b""
        if said:
            self._watch.output()
            beside: Fields = {"done": False}
            if isinstance(delta, TextDelta) and (logprobs := _logprobs(delta)):
                beside["logprobs"] = logprobs
            lines = _ENCODE(self._line(said, beside)) + b"\n"
        if isinstance(delta, AnswerEnd):
            lines += _ENCODE(self._line({}, self._end())) + b"\n"
        return lines


class OllamaWholeWriter(_Answer):
    """See ``AnswerWriter``. That the pieces of a whole answer come at once says nothing of when they were made."""

    def __init__(self, request: ChatRequest, watch: Stopwatch) -> None:
        super().__init__(request, watch)
        self._said: dict[str, Any] = {}
        self._logprobs: list[Any] = []

    def write(self, deltas: Sequence[Delta]) -> bytes:
        """See ``AnswerWriter.write``."""
        out = b""
        for delta in deltas:
            for name, piece in self.pieces(delta).items():
                self._said[name] = self._said[name] + piece if name in self._said else piece
            if isinstance(delta, TextDelta):
                self._logprobs += _logprobs(delta)
            if isinstance(delta, AnswerEnd):
                beside = {"logprobs": self._logprobs} if self._logprobs else {}
                out = _ENCODE(self._line(self._said, {**beside, **self._end()}))
        return out


def _logprobs(delta: TextDelta) -> list[Any]:
    """The log-probabilities of its tokens: what OpenAI's chat has under ``content``."""
    content = delta.logprobs.get("content") if isinstance(delta.logprobs, dict) else None
    return content if isinstance(content, list) else []
