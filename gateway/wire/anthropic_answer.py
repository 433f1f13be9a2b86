"""Writes deltas as answers of Anthropic's Messages, whole."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from gateway.price import Usage
from gateway.types import ChatRequest
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
from gateway.wire.format import BYTES_PER_TOKEN, estimate_output

# What Anthropic's schema wants in every whole message, and no other provider tells.
_UNTOLD = dict.fromkeys(("container", "stop_details"))
_BY_THE_MODEL = {"caller": {"type": "direct"}}
_UNTOLD_USAGE = dict.fromkeys(
    ("cache_creation", "inference_geo", "output_tokens_details", "server_tool_use", "service_tier")
)
_OBJECT = msgspec.json.Decoder(dict[str, Raw])


class _Thinking(msgspec.Struct):
    display: str | None = None


_THINKING = msgspec.json.Decoder(_Thinking)


def hides_thoughts(request: ChatRequest) -> bool:
    """Whether the client wants its thinking blocks without words, and only what they are signed with."""
    raw = request.raw.get("thinking")
    if raw is None or b'"omitted"' not in bytes(raw):
        return False
    return _THINKING.decode(raw).display == "omitted"


class AnthropicWholeWriter:
    """See ``AnswerWriter``."""

    def __init__(self, request: ChatRequest) -> None:
        self._request = request
        self._start = AnswerStart()
        self._finish = ChoiceFinish(reason="")
        self._usage: Usage | None = None
        self._blocks: list[dict[str, Any]] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._output_bytes = 0
        self._declined = False
        self._hides_thoughts = hides_thoughts(request)

    def write(self, deltas: Sequence[Delta]) -> bytes:
        """See ``AnswerWriter.write``."""
        out = b""
        for delta in deltas:
            match delta:
                case AnswerStart():
                    self._start = delta
                case UsageReport(usage=usage):
                    self._usage = usage
                case ChoiceFinish():
                    self._finish = delta
                case AnswerEnd():
                    out = self._message()
                case _:
                    self._output_bytes += len(getattr(delta, "text", "").encode())
                    self._output(delta)
        return out

    def _output(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text=text) | RefusalDelta(text=text):
                self._declined = self._declined or isinstance(delta, RefusalDelta)
                if text:
                    self._grow("text", "text", text, {"citations": ()})
            case ReasoningDelta(text=text):
                if self._blocks and self._blocks[-1].get("signature"):
                    self._blocks.append({"type": "thinking", "thinking": "", "signature": ""})
                self._grow("thinking", "thinking", "" if self._hides_thoughts else text, {"signature": ""})
            case ReasoningSignature(signature=signature):
                self._grow("thinking", "thinking", "", {"signature": ""})
                self._blocks[-1]["signature"] = signature
            case RedactedReasoning(data=data):
                self._blocks.append({"type": "redacted_thinking", "data": data})
            case ToolCallStart(index=index, id=call_id, name=name):
                self._calls[index] = {"type": "tool_use", "id": call_id, "name": name, "input": "", **_BY_THE_MODEL}
                self._blocks.append(self._calls[index])
            case ToolCallArguments(index=index, text=text):
                self._calls[index]["input"] += text

    def _grow(self, kind: str, name: str, text: str, beside: Mapping[str, Any]) -> None:
        """More of the last block, or a new one where that is of another kind."""
        if not self._blocks or self._blocks[-1]["type"] != kind:
            self._blocks.append({"type": kind, name: "", **beside})
        self._blocks[-1][name] += text

    def _message(self) -> bytes:
        finish = self._finish
        for call in self._calls.values():
            call["input"] = input_of(call["input"])
        reason = stop_reason(
            finish.reason,
            stop_sequence=finish.stop_sequence,
            called=bool(self._calls),
            declined=self._declined,
        )
        usage = counted_or_estimated(self._usage, self._request, self._output_bytes)
        return msgspec.json.encode(
            {
                **message_head(self._request, self._start),
                "content": self._blocks,
                "stop_reason": reason,
                "stop_sequence": finish.stop_sequence if reason == "stop_sequence" else None,
                **_UNTOLD,
                "usage": {**_UNTOLD_USAGE, **anthropic_usage(usage)},
            }
        )


def message_head(request: ChatRequest, start: AnswerStart) -> dict[str, Any]:
    """Who says it: the provider's id and model, else the request's own."""
    return {
        "id": start.id or f"msg_{request.arrival.id}",
        "type": "message",
        "role": "assistant",
        "model": start.model or request.model,
    }


def input_of(arguments: str) -> Any:
    """A call's arguments as the object that they are, byte for byte.

    A model may write none at all, which is an empty object, or what is no object: that is told as it is, under a name
    that no tool's schema has, so that the tool refuses it in words that the model can learn from.
    """
    if not arguments.strip():
        return {}
    try:
        _OBJECT.decode(arguments.encode())
    except (msgspec.DecodeError, RecursionError):
        return {"malformed_arguments": arguments}
    return Raw(arguments.encode())


def counted_or_estimated(usage: Usage | None, request: ChatRequest, output_bytes: int) -> Usage:
    """What the provider counted, else what the bytes come to, marked so: Anthropic's clients expect counts."""
    if usage is not None:
        return usage
    estimated = estimate_output(output_bytes)
    return Usage(
        prompt_tokens=-(-request.prompt_bytes // BYTES_PER_TOKEN),
        output_tokens=estimated.output_tokens,
        estimated=True,
    )
