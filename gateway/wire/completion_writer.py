"""Writes deltas as answers of OpenAI's completions, streamed or whole: text, and nothing but text.

A prompt without a template has an answer without parts: what a server took for thoughts is text, too.
"""

from collections.abc import Sequence

from gateway.errors import UpstreamInvalid
from gateway.price import Usage
from gateway.types import ChatRequest, Operation
from gateway.wire.deltas import (
    AnswerEnd,
    AnswerStart,
    ChoiceFinish,
    Delta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageReport,
)
from gateway.wire.openai_answer import Answered, StreamWriter, whole_answer
from gateway.wire.translation import AnswerWriter

_NO_PLACE = "the upstream sent a part of an answer that a completion has no place for"


def completion_writer(request: ChatRequest, streamed: bool) -> AnswerWriter:  # noqa: FBT001  # the door's signature
    """A writer of one answer; see ``WriterOf``."""
    return CompletionStreamWriter(request) if streamed else CompletionWholeWriter(request)


class CompletionStreamWriter:
    """See ``AnswerWriter``. The counts always go out: the look at the stream keeps them from who did not ask."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._events: StreamWriter | None = None
        self._usage: Usage | None = None

    def write(self, deltas: Sequence[Delta]) -> bytes:
        """See ``AnswerWriter.write``."""
        return b"".join([self._event(delta) for delta in deltas])

    def _event(self, delta: Delta) -> bytes:
        if self._events is None:
            start = delta if isinstance(delta, AnswerStart) else AnswerStart()
            self._events = StreamWriter(Operation.COMPLETION, *_envelope(self._request, start))
        match delta:
            case AnswerStart():
                return b""
            case UsageReport(usage=usage):
                self._usage = usage
                return b""
            case ChoiceFinish(reason=reason, choice=choice):
                return self._events.finish(choice, reason, stop_reason=delta.stop_sequence or "")
            case AnswerEnd():
                return (b"" if self._usage is None else self._events.usage(self._usage)) + self._events.done()
            case TextDelta() | RefusalDelta() | ReasoningDelta():
                return self._events.text(delta.choice, delta.text)
            case _:
                raise UpstreamInvalid(_NO_PLACE)


class CompletionWholeWriter:
    """See ``AnswerWriter``."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._start = AnswerStart()
        self._usage: Usage | None = None
        self._texts: dict[int, list[str]] = {}
        self._ends: dict[int, ChoiceFinish] = {}

    def write(self, deltas: Sequence[Delta]) -> bytes:
        """See ``AnswerWriter.write``."""
        return b"".join([self._take(delta) for delta in deltas])

    def _take(self, delta: Delta) -> bytes:
        match delta:
            case AnswerStart():
                self._start = delta
            case UsageReport(usage=usage):
                self._usage = usage
            case ChoiceFinish(choice=choice):
                self._ends[choice] = delta
            case AnswerEnd():
                return self._whole()
            case TextDelta() | RefusalDelta() | ReasoningDelta():
                self._texts.setdefault(delta.choice, []).append(delta.text)
            case _:
                raise UpstreamInvalid(_NO_PLACE)
        return b""

    def _whole(self) -> bytes:
        choices = [
            Answered("".join(self._texts.get(at, ())), end.reason, stop_reason=end.stop_sequence or "")
            for at, end in sorted(self._ends.items())
        ]
        return whole_answer(Operation.COMPLETION, *_envelope(self._request, self._start), choices, self._usage)


def _envelope(request: ChatRequest, start: AnswerStart) -> tuple[str, str, int]:
    """Id, model and time of an answer: the provider's, else the request's own."""
    return (
        start.id or f"cmpl-{request.arrival.id}",
        start.model or request.model,
        start.created_unix_s or int(request.arrival.received_unix_s),
    )
