"""The output items of a response as they grow, and the events that tell of them."""

from typing import Any

import msgspec

from gateway.types import ChatRequest
from gateway.wire.deltas import (
    ReasoningDelta,
    ReasoningSignature,
    RedactedReasoning,
    RefusalDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallStart,
)
from gateway.wire.openai_fields import text_bytes
from gateway.wire.responses_items import spaced
from gateway.wire.responses_output_items import Called, Events, Item, Message, Thought

OutputDelta = (
    TextDelta
    | RefusalDelta
    | ReasoningDelta
    | ReasoningSignature
    | RedactedReasoning
    | ToolCallStart
    | ToolCallArguments
)
_ENCRYPTED = b'"reasoning.encrypted_content"'


class Output:
    """Takes deltas, answers with events, and has the items in the end.

    What is thought and what is said are one item each until something else begins; calls are open until the end, since
    a model may write several at a time. ``text_bytes`` is how much there is of it all.
    """

    def __init__(self, request: ChatRequest) -> None:
        self.text_bytes = 0
        self._stem = request.arrival.id.removeprefix("req_")
        self._tells_thoughts = _ENCRYPTED in bytes(request.raw.get("include") or b"")
        self._items: list[Item] = []
        self._open: Message | Thought | None = None
        self._calls: dict[int, Called] = {}
        self._spaces = _namespaces(bytes(request.raw.get("tools") or b""))

    def take(self, delta: OutputDelta) -> Events:
        """More output."""
        self.text_bytes += text_bytes(getattr(delta, "text", ""))
        match delta:
            case TextDelta(text=text, logprobs=logprobs):
                return self._said("output_text", text, logprobs) if text or logprobs else []
            case RefusalDelta(text=text):
                return self._said("refusal", text, None) if text else []
            case ToolCallStart():
                return self._called(delta)
            case ToolCallArguments(index=index, text=text):
                return self._calls[index].grow(text)
        return self._thinks(delta)

    def close(self) -> Events:
        """Nothing comes any more."""
        events = self._close_open()
        for call in self._calls.values():
            events += call.close()
        return events

    def items(self, status: str) -> list[dict[str, Any]]:
        """All of it, in order; ``status`` is that of the response, and so of its last item."""
        fields = [item.fields() for item in self._items]
        if fields and status == "incomplete":
            fields[-1]["status"] = status
        return fields

    def _said(self, kind: str, text: str, logprobs: Any) -> Events:
        events: Events = []
        if not isinstance(self._open, Message):
            events = self._close_open()
            self._open = Message(len(self._items), f"msg_{self._stem}_{len(self._items)}")
            self._items.append(self._open)
            events.append(self._open.added())
        return events + self._open.grow(kind, text, logprobs)

    def _called(self, start: ToolCallStart) -> Events:
        events = self._close_open()
        name = f"{'ctc' if start.custom else 'fc'}_{self._stem}_{len(self._items)}"
        tool = self._spaces.get(start.name, {"name": start.name})
        call = Called(len(self._items), name, call_id=start.id, tool=tool, custom=start.custom)
        self._calls[start.index] = call
        self._items.append(call)
        return [*events, call.added()]

    def _thinks(self, delta: ReasoningDelta | ReasoningSignature | RedactedReasoning) -> Events:
        events, thought = self._thought()
        match delta:
            case ReasoningDelta(text=text):
                events += thought.grow(text)
            case ReasoningSignature(signature=signature):
                thought.sign(signature)
            case RedactedReasoning(data=data):
                thought.blocks.append({"type": "redacted_thinking", "data": data})
        return events

    def _thought(self) -> "tuple[Events, Thought]":
        if isinstance(self._open, Thought):
            return [], self._open
        events = self._close_open()
        name = f"rs_{self._stem}_{len(self._items)}"
        thought = self._open = Thought(len(self._items), name, encrypted=self._tells_thoughts)
        self._items.append(thought)
        return [*events, thought.added()], thought

    def _close_open(self) -> Events:
        closing, self._open = self._open, None
        return [] if closing is None else closing.close()


def _namespaces(tools: bytes) -> dict[str, dict[str, str]]:
    """Name and namespace of each tool that has one, by the name that a chat knows it by."""
    if b'"namespace"' not in tools:
        return {}
    return {
        spaced(space["name"], tool["name"]): {"name": tool["name"], "namespace": space["name"]}
        for space in msgspec.json.decode(tools)
        if space["type"] == "namespace" and space.get("name")
        for tool in space.get("tools") or ()
        if isinstance(tool.get("name"), str)
    }
