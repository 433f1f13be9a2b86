"""Writes deltas as answers of Anthropic's Messages, streamed.

``message_start`` first and once, then for each block its start, deltas and one stop, indices from 0 without gaps, then
``message_delta`` with the reason and the counts, ``message_stop`` last. Blocks never overlap: what belongs to a call
that is not the open one waits until the open one is complete.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.errors import UpstreamInvalid
from gateway.price import Usage
from gateway.types import ChatRequest
from gateway.wire.anthropic_answer import AnthropicWholeWriter, counted_or_estimated, hides_thoughts, message_head
from gateway.wire.anthropic_reasons import stop_reason
from gateway.wire.anthropic_usage import anthropic_usage
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
from gateway.wire.sse import frame
from gateway.wire.tool_calls import ArgumentsSoFar
from gateway.wire.translation import AnswerWriter

_ENCODE = msgspec.json.Encoder().encode
_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":%b}\n\n'
_PING = b'event: ping\ndata: {"type":"ping"}\n\n'

_OfCall = ToolCallStart | ToolCallArguments
_Output = TextDelta | RefusalDelta | ReasoningDelta | ReasoningSignature | RedactedReasoning | _OfCall


def anthropic_writer(request: ChatRequest, streamed: bool) -> AnswerWriter:  # noqa: FBT001  # the door's signature
    """A writer of one answer; see ``WriterOf``."""
    return AnthropicStreamWriter(request) if streamed else AnthropicWholeWriter(request)


def named_event(kind: str, fields: Mapping[str, Any]) -> bytes:
    """An event as Anthropic sends it: named, and with its name in the data too."""
    return frame(_ENCODE({"type": kind, **fields}), kind.encode())


class AnthropicStreamWriter:
    """See ``AnswerWriter``."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._blocks = _Blocks(hides_thoughts=hides_thoughts(request))
        self._begun = False
        self._finish = ChoiceFinish(reason="")
        self._usage: Usage | None = None
        self._output_bytes = 0
        self._called = False
        self._declined = False

    def write(self, deltas: Sequence[Delta]) -> bytes:
        """See ``AnswerWriter.write``."""
        out: list[bytes] = []
        for delta in deltas:
            if not self._begun:
                self._begin(delta if isinstance(delta, AnswerStart) else AnswerStart(), out)
            if isinstance(delta, TextDelta):  # most are
                self._output_bytes += len(delta.text.encode())
                self._blocks.take(delta, out)
            else:
                self._take(delta, out)
        return b"".join(out)

    def _begin(self, start: AnswerStart, out: list[bytes]) -> None:
        self._begun = True
        nothing = anthropic_usage(self._usage or Usage())
        head = {**message_head(self._request, start), "content": [], "stop_reason": None, "stop_sequence": None}
        out += [named_event("message_start", {"message": {**head, "usage": nothing}}), _PING]

    def _take(self, delta: Delta, out: list[bytes]) -> None:
        match delta:
            case AnswerStart():
                pass
            case UsageReport(usage=usage):
                self._usage = usage
            case ChoiceFinish():
                self._finish = delta
            case AnswerEnd():
                self._end(out)
            case _:
                self._called = self._called or isinstance(delta, ToolCallStart)
                self._declined = self._declined or isinstance(delta, RefusalDelta)
                self._output_bytes += len(getattr(delta, "text", "").encode())
                self._blocks.take(delta, out)

    def _end(self, out: list[bytes]) -> None:
        self._blocks.close(out)
        finish = self._finish
        reason = stop_reason(
            finish.reason, stop_sequence=finish.stop_sequence, called=self._called, declined=self._declined
        )
        sequence = finish.stop_sequence if reason == "stop_sequence" else None
        usage = anthropic_usage(counted_or_estimated(self._usage, self._request, self._output_bytes))
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        out += [named_event("message_delta", {"delta": delta, "usage": usage}), named_event("message_stop", {})]


class _Blocks:
    """The content blocks of a stream: one is open at a time, the others wait."""

    def __init__(self, *, hides_thoughts: bool) -> None:
        self._hides_thoughts = hides_thoughts
        self._index = -1
        self._open = ""
        self._said = False
        self._call: int | None = None
        self._ended_calls: set[int] = set()
        self._arguments = ArgumentsSoFar()
        self._waiting: list[_Output] = []

    def take(self, delta: _Output, out: list[bytes]) -> None:
        """Writes what can be written now.

        Raises:
            UpstreamInvalid: a call whose block is over goes on.
        """
        if isinstance(delta, ToolCallArguments) and delta.index in self._ended_calls:
            if delta.text.strip():
                raise UpstreamInvalid("the upstream went on with a tool call that was complete")
        elif self._must_wait(delta):
            self._waiting.append(delta)
        else:
            self._write(delta, out)
            if self._waiting and self._arguments.complete:
                waiting, self._waiting = self._waiting, []
                for one in waiting:
                    self.take(one, out)

    def close(self, out: list[bytes]) -> None:
        """The answer is over: whatever waits comes now, call by call."""
        waiting, self._waiting = self._waiting, []
        calls = [one for one in waiting if isinstance(one, _OfCall)]
        for one in sorted(calls, key=lambda one: one.index):  # sorts are stable: each call stays in its order
            self._write(one, out)
        for other in waiting:
            if not isinstance(other, _OfCall):
                self._write(other, out)
        self._close_open(out)

    def _must_wait(self, delta: _Output) -> bool:
        """Whether it belongs to another block than the open one, which is a call that is not complete."""
        if isinstance(delta, ToolCallArguments):
            return delta.index != self._call
        return self._call is not None and not self._arguments.complete

    def _write(self, delta: _Output, out: list[bytes]) -> None:
        match delta:
            case TextDelta(text=text) | RefusalDelta(text=text):
                if text:
                    self._go_on("text", {"type": "text", "text": ""}, out)
                    self._event({"type": "text_delta", "text": text}, out)
            case ReasoningDelta(text=text):
                self._go_on("thinking", {"type": "thinking", "thinking": "", "signature": ""}, out)
                if text and not self._hides_thoughts:
                    self._event({"type": "thinking_delta", "thinking": text}, out)
            case ReasoningSignature(signature=signature):
                self._go_on("thinking", {"type": "thinking", "thinking": "", "signature": ""}, out)
                self._event({"type": "signature_delta", "signature": signature}, out)
                self._close_open(out)
            case RedactedReasoning(data=data):
                self._begin("redacted_thinking", {"type": "redacted_thinking", "data": data}, out)
                self._close_open(out)
            case ToolCallStart(index=index, id=call_id, name=name):
                self._begin("tool_use", {"type": "tool_use", "id": call_id, "name": name, "input": {}}, out)
                self._call, self._arguments = index, ArgumentsSoFar()
            case ToolCallArguments(text=text):
                self._said = True
                self._arguments.feed(text)
                self._event({"type": "input_json_delta", "partial_json": text}, out)

    def _go_on(self, kind: str, block: Mapping[str, Any], out: list[bytes]) -> None:
        if self._open != kind:
            self._begin(kind, block, out)

    def _begin(self, kind: str, block: Mapping[str, Any], out: list[bytes]) -> None:
        self._close_open(out)
        self._index += 1
        self._open, self._said = kind, False
        out.append(named_event("content_block_start", {"index": self._index, "content_block": block}))

    def _event(self, delta: Mapping[str, Any], out: list[bytes]) -> None:
        out.append(_DELTA % (self._index, _ENCODE(delta)))

    def _close_open(self, out: list[bytes]) -> None:
        if not self._open:
            return
        if self._open == "tool_use" and not self._said:
            self._event({"type": "input_json_delta", "partial_json": "{}"}, out)
        out.append(named_event("content_block_stop", {"index": self._index}))
        if self._call is not None:
            self._ended_calls.add(self._call)
        self._open, self._call = "", None
