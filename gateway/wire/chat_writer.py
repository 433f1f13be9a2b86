"""Writes deltas as answers of OpenAI's chat, streamed or whole."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.price import Usage
from gateway.types import ChatRequest, Operation
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
from gateway.wire.openai_answer import Answered, Called, StreamWriter, whole_answer
from gateway.wire.translation import AnswerWriter


def chat_writer(request: ChatRequest, streamed: bool) -> AnswerWriter:  # noqa: FBT001  # the door's signature
    """A writer of one answer; see ``WriterOf``."""
    return ChatStreamWriter(request) if streamed else ChatWholeWriter(request)


class ChatStreamWriter:
    """See ``AnswerWriter``. The counts always go out: the look at the stream keeps them from who did not ask."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._events: StreamWriter | None = None
        self._opened: set[int] = set()
        self._thoughts = _Thoughts()
        self._usage: Usage | None = None

    def write(self, deltas: Sequence[Delta]) -> bytes:
        """See ``AnswerWriter.write``."""
        return b"".join([self._event(delta) for delta in deltas])

    def _event(self, delta: Delta) -> bytes:
        if self._events is None:
            start = delta if isinstance(delta, AnswerStart) else AnswerStart()
            self._events = StreamWriter(Operation.CHAT, *_envelope(self._request, start))
        events = self._events
        if isinstance(delta, AnswerStart):
            return b""
        if isinstance(delta, UsageReport):
            self._usage = delta.usage
            return b""
        if isinstance(delta, AnswerEnd):
            return (b"" if self._usage is None else events.usage(self._usage)) + events.done()
        opening = b""
        if delta.choice not in self._opened:
            self._opened.add(delta.choice)
            opening = events.opening(delta.choice)
        return opening + self._output(events, delta)

    def _output(self, events: StreamWriter, delta: Delta) -> bytes:
        event = b""
        match delta:
            case TextDelta(text=text, choice=choice, logprobs=logprobs):
                event = events.text(choice, text, logprobs)
            case ReasoningDelta(text=text, choice=choice):
                self._thoughts.grow(choice, text)
                event = events.reasoning(choice, text)
            case ReasoningSignature() | RedactedReasoning():
                event = events.other(delta.choice, "thinking_blocks", [self._thoughts.ended(delta)])
            case RefusalDelta(text=text, choice=choice):
                event = events.other(choice, "refusal", text)
            case ToolCallStart(index=index, id=call_id, name=name, choice=choice):
                event = events.call(choice, index, Called(call_id, name, "", delta.custom))
            case ToolCallArguments(index=index, text=text, choice=choice):
                event = events.call(choice, index, Called("", "", text, delta.custom))
            case ChoiceFinish(reason=reason, choice=choice):
                event = events.finish(choice, reason, stop_reason=delta.stop_sequence or "")
        return event


class ChatWholeWriter:
    """See ``AnswerWriter``."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._start = AnswerStart()
        self._usage: Usage | None = None
        self._heard: dict[int, _Heard] = {}
        self._thoughts = _Thoughts()

    def write(self, deltas: Sequence[Delta]) -> bytes:
        """See ``AnswerWriter.write``."""
        return b"".join([self._take(delta) for delta in deltas])

    def _take(self, delta: Delta) -> bytes:
        if isinstance(delta, AnswerStart):
            self._start = delta
        elif isinstance(delta, UsageReport):
            self._usage = delta.usage
        elif isinstance(delta, AnswerEnd):
            choices = [heard.answered() for _, heard in sorted(self._heard.items())]
            return whole_answer(Operation.CHAT, *_envelope(self._request, self._start), choices, self._usage)
        else:
            self._hear(self._heard.setdefault(delta.choice, _Heard()), delta)
        return b""

    def _hear(self, heard: "_Heard", delta: Delta) -> None:
        match delta:
            case TextDelta(text=text, logprobs=logprobs):
                heard.text.append(text)
                heard.logprobs = logprobs if logprobs is not None else heard.logprobs
            case ReasoningDelta(text=text, choice=choice):
                heard.reasoning.append(text)
                self._thoughts.grow(choice, text)
            case ReasoningSignature() | RedactedReasoning():
                heard.blocks.append(self._thoughts.ended(delta))
            case RefusalDelta(text=text):
                heard.refusal.append(text)
            case ToolCallStart(index=index, id=call_id, name=name):
                heard.calls[index] = (call_id, name, [], delta.custom)
            case ToolCallArguments(index=index, text=text):
                heard.calls[index][2].append(text)
            case ChoiceFinish(reason=reason):
                heard.reason = reason
                heard.stop_sequence = delta.stop_sequence or ""


class _Thoughts:
    """The thought under way of each choice, so that it can be told whole once its signature is there."""

    def __init__(self) -> None:
        self._texts: dict[int, list[str]] = {}

    def grow(self, choice: int, text: str) -> None:
        self._texts.setdefault(choice, []).append(text)

    def ended(self, delta: ReasoningSignature | RedactedReasoning) -> dict[str, str]:
        if isinstance(delta, RedactedReasoning):
            return {"type": "redacted_thinking", "data": delta.data}
        text = "".join(self._texts.pop(delta.choice, ()))
        return {"type": "thinking", "thinking": text, "signature": delta.signature}


@dataclass(slots=True)
class _Heard:
    """A whole choice in the making."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    blocks: list[dict[str, str]] = field(default_factory=list)
    calls: dict[int, tuple[str, str, list[str], bool]] = field(default_factory=dict)
    logprobs: Any = None
    reason: str = "stop"
    stop_sequence: str = ""

    def answered(self) -> Answered:
        calls = [
            Called(call_id, name, "".join(pieces), custom)
            for _, (call_id, name, pieces, custom) in sorted(self.calls.items())
        ]
        return Answered(
            "".join(self.text),
            self.reason,
            "".join(self.reasoning),
            calls,
            self.logprobs,
            "".join(self.refusal),
            self.blocks,
            self.stop_sequence,
        )


def _envelope(request: ChatRequest, start: AnswerStart) -> tuple[str, str, int]:
    """Id, model and time of an answer: the provider's, else the request's own."""
    return (
        start.id or f"chatcmpl-{request.arrival.id}",
        start.model or request.model,
        start.created_unix_s or int(request.arrival.received_unix_s),
    )
