"""Providers as they answer and clients as they read, for tests that go from any of them to any other.

A ``Said`` is what a model said; each provider writes it in its own format, and each client reads it out of its own,
after the types of its official library.
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ollama
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from backends._aws_event_stream import AwsEventParser
from gateway.price import Usage
from gateway.types import Arrival, ChatRequest, Operation, TraceContext
from gateway.wire.anthropic_reader import anthropic_reader
from gateway.wire.chat_reader import chat_reader
from gateway.wire.converse_reader import converse_reader
from gateway.wire.deltas import (
    AnswerEnd,
    AnswerStart,
    ChoiceFinish,
    Delta,
    ReasoningDelta,
    ReasoningSignature,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
    UsageReport,
)
from gateway.wire.formats import FORMATS
from gateway.wire.gemini_reader import gemini_reader
from gateway.wire.ollama_reader import ollama_reader
from gateway.wire.translation import ReaderOf
from gateway.wire.writers import WRITERS
from tests import aws_frames
from tests.anthropic_answers import blocks_of, checked_events, checked_message

TRACE = TraceContext(trace_id="0" * 32, span_id="0" * 16)
_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_SIGNATURE = base64.b64encode(b"signed").decode()
_BODIES: Mapping[Operation, Mapping[str, Any]] = {
    Operation.CHAT: {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    Operation.MESSAGES: {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
    Operation.RESPONSE: {"model": "m", "input": "hi"},
    Operation.OLLAMA_CHAT: {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
}


@dataclass(frozen=True, kw_only=True)
class Said:
    """Thoughts, then text, then calls of functions by name and arguments, and what it took.

    ``pieces`` is how many characters come at a time, where an answer is streamed.
    """

    thoughts: str = ""
    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    reason: str = "stop"
    usage: Usage
    pieces: int = 3

    @property
    def counts(self) -> tuple[int, int]:
        """What went in, and what came out."""
        return self.usage.prompt_tokens, self.usage.output_tokens


def request_of(operation: Operation) -> ChatRequest:
    """A small request of a client."""
    arrival = Arrival(id="req_1", operation=operation, tenant="t", received_s=0, received_unix_s=0, trace=TRACE)
    return FORMATS[operation].read(arrival, json.dumps(_BODIES[operation]).encode())


def deltas_of(said: Said) -> list[Delta]:
    """The answer in neutral pieces."""
    deltas: list[Delta] = [
        AnswerStart(id="x", model="m"),
        *(ReasoningDelta(text=it) for it in _cut(said.thoughts, said)),
    ]
    if said.thoughts:
        deltas.append(ReasoningSignature(signature=_SIGNATURE))
    deltas += [TextDelta(text=it) for it in _cut(said.text, said)]
    for index, (name, arguments) in enumerate(said.calls):
        deltas.append(ToolCallStart(index=index, id=f"call_{index}", name=name))
        deltas += [ToolCallArguments(index=index, text=it) for it in _cut(json.dumps(arguments), said)]
    return [*deltas, ChoiceFinish(reason=said.reason), UsageReport(usage=said.usage), AnswerEnd()]


def _cut(text: str, said: Said) -> list[str]:
    return [text[at : at + said.pieces] for at in range(0, len(text), said.pieces)]


def _written(operation: Operation) -> Callable[[Said, bool], bytes]:
    """A provider whose format is a client's, too: our own writer writes it."""

    def write(said: Said, streamed: bool) -> bytes:
        return WRITERS[operation](request_of(operation), streamed).write(deltas_of(said))

    return write


def _gemini(said: Said, streamed: bool) -> bytes:
    thoughts = [{"text": it, "thought": True} for it in _cut(said.thoughts, said)]
    texts = [{"text": it} for it in _cut(said.text, said)]
    calls = [{"functionCall": {"name": name, "args": dict(arguments)}} for name, arguments in said.calls]
    reason = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}.get(said.reason, "STOP")
    usage = said.usage
    counts = {
        "promptTokenCount": usage.prompt_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
        "totalTokenCount": usage.prompt_tokens + usage.output_tokens,
    }
    head = {"modelVersion": "m", "responseId": "r"}
    end = {"finishReason": reason, "index": 0}
    parts = [*thoughts, *texts, *calls]
    if not streamed:
        content = {"role": "model", "parts": parts}
        return json.dumps({**head, "candidates": [{"content": content, **end}], "usageMetadata": counts}).encode()
    pieces = [{**head, "candidates": [{"content": {"role": "model", "parts": [it]}, "index": 0}]} for it in parts]
    pieces.append({**head, "candidates": [end], "usageMetadata": counts})
    return b"".join(b"data: " + json.dumps(it).encode() + b"\r\n\r\n" for it in pieces)


_CONVERSE_REASONS = {"length": "max_tokens", "content_filter": "content_filtered", "tool_calls": "tool_use"}


def _converse(said: Said, streamed: bool) -> bytes:
    usage = said.usage
    counts = {
        "inputTokens": usage.prompt_tokens - usage.cached_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.prompt_tokens + usage.output_tokens,
        "cacheReadInputTokens": usage.cached_tokens,
        "cacheWriteInputTokens": 0,
    }
    reason = _CONVERSE_REASONS.get(said.reason, "end_turn")
    if not streamed:
        thought = {"reasoningText": {"text": said.thoughts, "signature": _SIGNATURE}}
        content: list[Any] = [{"reasoningContent": thought}] if said.thoughts else []
        content += [{"text": said.text}] if said.text else []
        for index, (name, arguments) in enumerate(said.calls):
            content.append({"toolUse": {"toolUseId": f"call_{index}", "name": name, "input": dict(arguments)}})
        message = {"role": "assistant", "content": content}
        return json.dumps({"output": {"message": message}, "stopReason": reason, "usage": counts}).encode()
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if said.thoughts:
        thoughts = [{"reasoningContent": {"text": it}} for it in _cut(said.thoughts, said)]
        blocks.append(({}, [*thoughts, {"reasoningContent": {"signature": _SIGNATURE}}]))
    if said.text:
        blocks.append(({}, [{"text": it} for it in _cut(said.text, said)]))
    for index, (name, arguments) in enumerate(said.calls):
        start = {"toolUse": {"toolUseId": f"call_{index}", "name": name}}
        blocks.append((start, [{"toolUse": {"input": it}} for it in _cut(json.dumps(arguments), said)]))
    frames = [aws_frames.event("messageStart", {"role": "assistant"})]
    for at, (start, deltas) in enumerate(blocks):
        here = {"contentBlockIndex": at}
        frames += [aws_frames.event("contentBlockStart", {**here, "start": start})] if start else []
        frames += [aws_frames.event("contentBlockDelta", {**here, "delta": it}) for it in deltas]
        frames.append(aws_frames.event("contentBlockStop", here))
    frames.append(aws_frames.event("messageStop", {"stopReason": reason}))
    frames.append(aws_frames.event("metadata", {"usage": counts, "metrics": {"latencyMs": 1}}))
    return b"".join(frames)


PROVIDERS: Mapping[str, tuple[ReaderOf, Callable[[Said, bool], bytes]]] = {
    "openai": (chat_reader, _written(Operation.CHAT)),
    "anthropic": (anthropic_reader, _written(Operation.MESSAGES)),
    "gemini": (gemini_reader, _gemini),
    "bedrock": (converse_reader("m", AwsEventParser), _converse),
    "ollama": (ollama_reader, _written(Operation.OLLAMA_CHAT)),
}
"""What reads each, and what it would write."""


def _chat(body: bytes, streamed: bool) -> Said:
    if not streamed:
        answer = ChatCompletion.model_validate_json(body, strict=True)
        choice, counts = answer.choices[0], answer.usage
        assert counts is not None
        thoughts = getattr(choice.message, "reasoning_content", None) or ""
        named = [(it.function.name, it.function.arguments) for it in choice.message.tool_calls or ()]  # type: ignore[union-attr]
        return _said(thoughts, choice.message.content, named, choice.finish_reason, counts)
    events = body.removesuffix(b"\n\n").split(b"\n\n")
    assert events.pop() == b"data: [DONE]"
    chunks = [ChatCompletionChunk.model_validate_json(it.removeprefix(b"data: "), strict=True) for it in events]
    deltas = [chunk.choices[0] for chunk in chunks if chunk.choices]
    calls: dict[int, list[str]] = {}
    for call in (call for choice in deltas for call in choice.delta.tool_calls or ()):
        function = call.function
        assert function is not None
        told = calls.setdefault(call.index, ["", ""])
        told[0] += function.name or ""
        told[1] += function.arguments or ""
    (reason,) = [it.finish_reason for it in deltas if it.finish_reason is not None]
    (counts,) = [chunk.usage for chunk in chunks if chunk.usage is not None]
    return _said(
        "".join(getattr(it.delta, "reasoning_content", None) or "" for it in deltas),
        "".join(it.delta.content or "" for it in deltas),
        [(name, arguments) for name, arguments in calls.values()],
        reason,
        counts,
    )


def _said(thoughts: str, text: str | None, calls: Sequence[tuple[str, str]], reason: str, counts: Any) -> Said:
    return Said(
        thoughts=thoughts,
        text=text or "",
        calls=tuple((name, json.loads(arguments)) for name, arguments in calls),
        reason=reason,
        usage=Usage(prompt_tokens=counts.prompt_tokens, output_tokens=counts.completion_tokens),
    )


_ANTHROPIC_REASONS = {"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls", "refusal": "content_filter"}


def _messages(body: bytes, streamed: bool) -> Said:
    if streamed:
        events = checked_events(body)
        blocks, last = blocks_of(events), next(it for it in events if it["type"] == "message_delta")
        reason, usage = last["delta"]["stop_reason"], last["usage"]
    else:
        message = checked_message(body)
        blocks, reason, usage = message["content"], message["stop_reason"], message["usage"]
    cached = usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
    return Said(
        thoughts="".join(it["thinking"] for it in blocks if it["type"] == "thinking"),
        text="".join(it["text"] for it in blocks if it["type"] == "text"),
        calls=tuple((it["name"], it["input"]) for it in blocks if it["type"] == "tool_use"),
        reason=_ANTHROPIC_REASONS[reason],
        usage=Usage(prompt_tokens=usage["input_tokens"] + cached, output_tokens=usage["output_tokens"]),
    )


def _response(body: bytes, streamed: bool) -> Said:
    if streamed:
        events = [json.loads(it.partition(b"\ndata: ")[2]) for it in body.removesuffix(b"\n\n").split(b"\n\n")]
        for event in events:
            _EVENT.validate_python(event)
        assert list(range(len(events))) == [event["sequence_number"] for event in events]
        assert ["response.created", "response.in_progress"] == [event["type"] for event in events[:2]]
        body = json.dumps(events[-1]["response"]).encode()
        shown = "".join(it["delta"] for it in events if it["type"] == "response.output_text.delta")
    fields = Response.model_validate_json(body).model_dump()
    items = fields["output"]
    parts = [part for it in items if it["type"] == "message" for part in it["content"]]
    text = "".join(part["text"] for part in parts)
    assert not streamed or shown == text
    calls = tuple((it["name"], json.loads(it["arguments"])) for it in items if it["type"] == "function_call")
    why = (fields["incomplete_details"] or {}).get("reason")
    reason = {"max_output_tokens": "length", "content_filter": "content_filter"}.get(why or "")
    summaries = [part for it in items if it["type"] == "reasoning" for part in it["summary"]]
    return Said(
        thoughts="".join(part["text"] for part in summaries),
        text=text,
        calls=calls,
        reason=reason or ("tool_calls" if calls else "stop"),
        usage=Usage(prompt_tokens=fields["usage"]["input_tokens"], output_tokens=fields["usage"]["output_tokens"]),
    )


def _ollama(body: bytes, streamed: bool) -> Said:
    lines = [ollama.ChatResponse.model_validate_json(it) for it in body.splitlines()]
    assert streamed or len(lines) == 1
    assert [False] * (len(lines) - 1) + [True] == [it.done for it in lines]
    messages = [it.message for it in lines]
    calls = tuple((it.function.name, dict(it.function.arguments)) for one in messages for it in one.tool_calls or ())
    return Said(
        thoughts="".join(it.thinking or "" for it in messages),
        text="".join(it.content or "" for it in messages),
        calls=calls,
        reason="tool_calls" if calls and lines[-1].done_reason == "stop" else lines[-1].done_reason or "",
        usage=Usage(
            prompt_tokens=lines[-1].prompt_eval_count or 0,
            output_tokens=lines[-1].eval_count or 0,
        ),
    )


CLIENTS: Mapping[Operation, Callable[[bytes, bool], Said]] = {
    Operation.CHAT: _chat,
    Operation.MESSAGES: _messages,
    Operation.RESPONSE: _response,
    Operation.OLLAMA_CHAT: _ollama,
}
"""What each client has read, after its own types."""


def plain(said: Said) -> Said:
    """Of the counts only what every format has, and nothing of how it was cut."""
    prompt_tokens, output_tokens = said.counts
    return replace(said, usage=Usage(prompt_tokens=prompt_tokens, output_tokens=output_tokens), pieces=3)
