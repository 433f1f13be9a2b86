"""Reads answers of AWS Bedrock's ``Converse`` and ``ConverseStream``, as deltas.

A stream is not of server-sent events but of AWS's own frames, which ``EventParser`` takes apart: the backend has one.
Nothing marks a stream's end but the connection's; what was counted comes after the reason.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from gateway.errors import UpstreamError, UpstreamInvalid, UpstreamTruncated
from gateway.price import Usage
from gateway.wire.converse_errors import converse_error
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
from gateway.wire.translation import ReaderOf
from gateway.wire.upstream_codes import error_inside
from gateway.wire.upstream_json import Fields, object_at, objects, opened_object, text_at, tokens_at
from gateway.wire.whole_reader import WholeReader

_REASONS = {
    "content_filtered": "content_filter",
    "end_turn": "stop",
    "guardrail_intervened": "content_filter",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
}
_BROKEN = frozenset({"malformed_model_output", "malformed_tool_use"})


class ConverseEvent(NamedTuple):
    """One frame: what it is by its name, its JSON, and whether it is an exception."""

    name: str
    payload: bytes
    failed: bool = False


class EventParser(Protocol):
    """Takes AWS's frames apart."""

    def feed(self, data: bytes) -> list[ConverseEvent]:
        """The frames that are complete with these bytes, which may be cut anywhere.

        Raises:
            UpstreamInvalid: they are none.
        """
        ...


def converse_reader(model: str, parser: Callable[[], EventParser]) -> ReaderOf:
    """Makes readers of answers by ``model``, whose name Converse does not tell."""
    return lambda streamed: (
        ConverseStreamReader(model, parser()) if streamed else WholeReader(partial(_read_whole, model))
    )


class ConverseStreamReader:
    """See ``AnswerReader``. Events of kinds that are still to come say nothing."""

    def __init__(self, model: str, parser: EventParser) -> None:
        self.error: UpstreamError | None = None
        self._model = model
        self._parser = parser
        self._calls: dict[int, int] = {}
        self._unsaid: set[int] = set()
        self._began = False
        self._finished = False

    def feed(self, data: bytes) -> list[Delta]:
        """See ``AnswerReader.feed``."""
        deltas: list[Delta] = []
        for event in self._parser.feed(data):
            if self.error is not None:
                break
            if event.failed:
                self.error = converse_error(event.name, event.payload)
            else:
                self._take(event.name, opened_object(event.payload), deltas)
        return deltas

    def end(self) -> list[Delta]:
        """See ``AnswerReader.end``: an answer with a stop reason is complete."""
        if self.error is not None:
            return []
        if not self._began:
            raise UpstreamInvalid("the upstream closed its stream without an answer")
        if not self._finished:
            raise UpstreamTruncated("the upstream closed its stream before the answer was complete")
        return [AnswerEnd()]

    def _take(self, name: str, fields: Fields, deltas: list[Delta]) -> None:
        match name:
            case "messageStart":
                self._began = True
                deltas.append(AnswerStart(model=self._model))
            case "contentBlockStart":
                self._block(_index(fields), object_at(fields, "start"), deltas)
            case "contentBlockDelta":
                self._delta(_index(fields), object_at(fields, "delta"), deltas)
            case "contentBlockStop" if _index(fields) in self._unsaid:  # a call without arguments
                self._unsaid.discard(_index(fields))
                deltas.append(ToolCallArguments(index=self._calls[_index(fields)], text="{}"))
            case "messageStop" if not self._finished:
                self._finished = True
                deltas.append(_finish(fields))
            case "metadata":
                deltas += _counted(fields)

    def _block(self, index: int, start: Fields, deltas: list[Delta]) -> None:
        if "toolUse" in start:
            self._calls[index] = len(self._calls)
            self._unsaid.add(index)
            deltas.append(_call(object_at(start, "toolUse"), self._calls[index]))
        elif any(start.values()):  # one that is empty only announces a kind, whose deltas are judged
            raise _nowhere()

    def _delta(self, index: int, delta: Fields, deltas: list[Delta]) -> None:
        match delta:
            case {"text": str(text)}:
                deltas.append(TextDelta(text=text))
            case {"reasoningContent": dict(thought)}:
                deltas += _thought(thought)
            case {"toolUse": {"input": str(text)}} if index in self._calls:
                if text:
                    self._unsaid.discard(index)
                    deltas.append(ToolCallArguments(index=self._calls[index], text=text))
            case {"citation": _}:
                pass  # where a text is from: no client's format has a place for it, and the text itself has come
            case _:
                raise _nowhere()


def _read_whole(model: str, body: bytes) -> list[Delta]:
    """All that a whole answer says, of a model that it does not name."""
    if not body.strip():
        raise UpstreamInvalid("the upstream sent an empty answer")
    answer = opened_object(body)
    message = object_at(object_at(answer, "output"), "message")
    if not isinstance(message.get("content"), list):
        if "message" in answer:
            raise error_inside(body, "the upstream reported an error in place of an answer")
        raise UpstreamInvalid("the upstream sent an answer without content")
    deltas: list[Delta] = [AnswerStart(model=model)]
    calls = 0
    for block in objects(message["content"]):
        deltas += _block(block, calls)
        calls += "toolUse" in block
    return [*deltas, _finish(answer), *_counted(answer), AnswerEnd()]


def _block(block: Fields, calls: int) -> list[Delta]:
    """What a whole block says, after so many ``calls``."""
    match block:
        case {"text": str(text)}:
            return [TextDelta(text=text)] if text else []
        case {"reasoningContent": {"reasoningText": dict(thought)}} | {"reasoningContent": dict(thought)}:
            return _thought(thought)
        case {"toolUse": dict(call)}:
            arguments = msgspec.json.encode(call.get("input") or {}).decode()
            return [_call(call, calls), ToolCallArguments(index=calls, text=arguments)]
        case {"citationsContent": dict(cited)}:
            return [TextDelta(text=text) for it in objects(cited.get("content")) if (text := text_at(it, "text"))]
        case _:
            raise _nowhere()


def _thought(thought: Fields) -> list[Delta]:
    deltas: list[Delta] = []
    if text := text_at(thought, "text"):
        deltas.append(ReasoningDelta(text=text))
    if signature := text_at(thought, "signature"):
        deltas.append(ReasoningSignature(signature=signature))
    if data := text_at(thought, "redactedContent"):
        deltas.append(RedactedReasoning(data=data))
    return deltas


def _call(call: Fields, index: int) -> ToolCallStart:
    call_id, name = text_at(call, "toolUseId"), text_at(call, "name")
    if not call_id or not name:
        raise UpstreamInvalid("the upstream sent a tool call without an id or a name")
    return ToolCallStart(index=index, id=call_id, name=name)


def _finish(fields: Fields) -> ChoiceFinish:
    """Why it ended; a call that the model could not write is no answer.

    Raises:
        UpstreamInvalid: so it was.
        UpstreamTruncated: there is no reason.
    """
    reason = text_at(fields, "stopReason")
    if not reason:
        raise UpstreamTruncated("the upstream's answer has no reason why it ended")
    if reason in _BROKEN:
        raise UpstreamInvalid("the model wrote what is no answer")
    stopped_by = text_at(object_at(fields, "additionalModelResponseFields"), "stop_sequence")
    return ChoiceFinish(reason=_REASONS.get(reason, reason), stop_sequence=stopped_by or None)


def _counted(fields: Fields) -> list[Delta]:
    """The counts, whose input leaves out what the cache had and got; ours includes both."""
    usage: Any = fields.get("usage")
    if not isinstance(usage, dict):
        return []
    read_tokens, written_tokens = tokens_at(usage, "cacheReadInputTokens"), tokens_at(usage, "cacheWriteInputTokens")
    counted = Usage(
        prompt_tokens=tokens_at(usage, "inputTokens") + read_tokens + written_tokens,
        output_tokens=tokens_at(usage, "outputTokens"),
        cached_tokens=read_tokens,
        cache_write_tokens=written_tokens,
    )
    return [UsageReport(usage=counted)]


def _index(fields: Fields) -> int:
    index = fields.get("contentBlockIndex")
    return index if type(index) is int else 0


def _nowhere() -> UpstreamInvalid:
    return UpstreamInvalid("the upstream's answer has a block that the client's format has no place for")
