"""Reads answers of Anthropic's Messages, streamed or whole, as deltas."""

from typing import Any

import msgspec

from gateway.errors import UpstreamError, UpstreamInvalid, UpstreamTruncated
from gateway.wire.anthropic_reasons import HUB_REASONS
from gateway.wire.anthropic_usage import AnthropicCounts
from gateway.wire.deltas import (
    AnswerEnd,
    AnswerStart,
    ChoiceFinish,
    Delta,
    ReasoningDelta,
    ReasoningSignature,
    RedactedReasoning,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
    UsageReport,
)
from gateway.wire.format import MAX_EVENT_BYTES
from gateway.wire.sse import SseParser
from gateway.wire.translation import AnswerReader
from gateway.wire.upstream_codes import error_inside
from gateway.wire.upstream_json import Fields, object_at, objects, opened_object, text_at
from gateway.wire.whole_reader import WholeReader


def anthropic_reader(streamed: bool) -> AnswerReader:  # noqa: FBT001  # the door's signature
    """A reader of one answer; see ``ReaderOf``."""
    return AnthropicStreamReader() if streamed else WholeReader(_read_whole)


class AnthropicStreamReader:
    """See ``AnswerReader``. Events of kinds that are still to come say nothing, as Anthropic asks of its clients."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.error: UpstreamError | None = None
        self._parser = SseParser(max_event_bytes)
        self._counts = AnthropicCounts()
        self._calls: dict[int, int] = {}
        self._unsaid: dict[int, str] = {}
        self._began = False
        self._finished = False
        self._done = False

    def feed(self, data: bytes) -> list[Delta]:
        """See ``AnswerReader.feed``."""
        deltas: list[Delta] = []
        for event in self._parser.feed(data):
            if self._over:
                break
            fields = opened_object(event.data)
            kind = fields.get("type")
            if event.event == b"error" or kind == "error":
                self.error = error_inside(event.data, "the upstream reported an error inside its stream")
            else:
                self._take(kind, fields, deltas)
        return deltas

    def end(self) -> list[Delta]:
        """See ``AnswerReader.end``: an answer with a stop reason is complete."""
        if self._over:
            return []
        if not self._began and not self._parser.partial:
            raise UpstreamInvalid("the upstream closed its stream without an answer")
        if not self._finished:
            raise UpstreamTruncated("the upstream closed its stream before the answer was complete")
        self._done = True
        return [AnswerEnd()]

    @property
    def _over(self) -> bool:
        return self._done or self.error is not None

    def _take(self, kind: Any, fields: Fields, deltas: list[Delta]) -> None:
        match kind:
            case "message_start":
                message = object_at(fields, "message")
                self._began = True
                deltas.append(_start(message))
                self._counted(message.get("usage"), deltas)
            case "content_block_start":
                self._block(_index(fields), object_at(fields, "content_block"), deltas)
            case "content_block_delta":
                self._delta(_index(fields), object_at(fields, "delta"), deltas)
            case "content_block_stop":
                self._stop(_index(fields), deltas)
            case "message_delta":
                self._counted(fields.get("usage"), deltas)
                finish = _finish(object_at(fields, "delta"))
                if finish is not None and not self._finished:
                    self._finished = True
                    deltas.append(finish)
            case "message_stop":
                self._done = True
                deltas.append(AnswerEnd())

    def _block(self, index: int, block: Fields, deltas: list[Delta]) -> None:
        if block.get("type") == "tool_use":
            self._calls[index] = len(self._calls)
            self._unsaid[index] = _input(block)
            deltas.append(_call(block, self._calls[index]))
        else:
            deltas += block_deltas(block, 0)

    def _delta(self, index: int, delta: Fields, deltas: list[Delta]) -> None:
        match delta.get("type"):
            case "text_delta":
                deltas.append(TextDelta(text=text_at(delta, "text")))
            case "thinking_delta":
                deltas.append(ReasoningDelta(text=text_at(delta, "thinking")))
            case "signature_delta":
                deltas.append(ReasoningSignature(signature=text_at(delta, "signature")))
            case "input_json_delta" if index in self._calls and text_at(delta, "partial_json"):
                self._unsaid.pop(index, None)
                deltas.append(ToolCallArguments(index=self._calls[index], text=text_at(delta, "partial_json")))

    def _stop(self, index: int, deltas: list[Delta]) -> None:
        """A call's input may have come whole with its start, and is an empty object where it never came."""
        unsaid = self._unsaid.pop(index, None)
        if unsaid is not None:
            deltas.append(ToolCallArguments(index=self._calls[index], text=unsaid))

    def _counted(self, usage: Any, deltas: list[Delta]) -> None:
        self._counts.take(usage)
        counted = self._counts.usage
        if counted is not None:
            deltas.append(UsageReport(usage=counted))


def _read_whole(body: bytes) -> list[Delta]:
    """All that a whole answer says."""
    message = opened_message(body)
    counts = AnthropicCounts()
    counts.take(message.get("usage"))
    deltas: list[Delta] = [_start(message)]
    calls = 0
    for block in objects(message["content"]):
        deltas += block_deltas(block, calls)
        calls += block.get("type") == "tool_use"
    finish = _finish(message)
    if finish is not None:
        deltas.append(finish)
    if counts.usage is not None:
        deltas.append(UsageReport(usage=counts.usage))
    deltas.append(AnswerEnd())
    return deltas


def opened_message(body: bytes) -> Fields:
    """The message in a body.

    Raises:
        UpstreamInvalid: the body is empty, or no message with content.
        UpstreamError: it is an error.
    """
    if not body.strip():
        raise UpstreamInvalid("the upstream sent an empty answer")
    message = opened_object(body)
    if message.get("type") == "error" or message.get("error"):
        raise error_inside(body, "the upstream reported an error in place of an answer")
    if not isinstance(message.get("content"), list):
        raise UpstreamInvalid("the upstream sent an answer without content")
    return message


def block_deltas(block: Fields, calls: int) -> list[Delta]:
    """What a whole block says, after so many ``calls``; the opening of one that is streamed is nearly empty.

    Raises:
        UpstreamInvalid: it is of a kind that was not asked for and that has no place in other formats.
    """
    deltas: list[Delta] = []
    match block.get("type"):
        case "text":
            if text := text_at(block, "text"):
                deltas.append(TextDelta(text=text))
        case "thinking":
            if thought := text_at(block, "thinking"):
                deltas.append(ReasoningDelta(text=thought))
            if signature := text_at(block, "signature"):
                deltas.append(ReasoningSignature(signature=signature))
        case "redacted_thinking":
            deltas.append(RedactedReasoning(data=text_at(block, "data")))
        case "tool_use":
            deltas += [_call(block, calls), ToolCallArguments(index=calls, text=_input(block))]
        case _:
            raise UpstreamInvalid("the upstream's answer has a block that the client's format has no place for")
    return deltas


def _start(message: Fields) -> AnswerStart:
    return AnswerStart(id=text_at(message, "id"), model=text_at(message, "model"))


def _finish(fields: Fields) -> ChoiceFinish | None:
    reason = text_at(fields, "stop_reason")
    if not reason:
        return None
    return ChoiceFinish(reason=HUB_REASONS.get(reason, reason), stop_sequence=text_at(fields, "stop_sequence") or None)


def _call(block: Fields, index: int) -> ToolCallStart:
    call_id, name = text_at(block, "id"), text_at(block, "name")
    if not call_id or not name:
        raise UpstreamInvalid("the upstream sent a tool call without an id or a name")
    return ToolCallStart(index=index, id=call_id, name=name)


def _input(block: Fields) -> str:
    return msgspec.json.encode(block.get("input") or {}).decode()


def _index(fields: Fields) -> int:
    index = fields.get("index")
    return index if type(index) is int else 0
