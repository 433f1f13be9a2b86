"""The output items of a response as they grow, and the events that tell of them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
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
from gateway.wire.responses_items import closed_thoughts, spaced

Events = list[tuple[str, dict[str, Any]]]
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
        self._items: list[_Item] = []
        self._open: _Message | _Thought | None = None
        self._calls: dict[int, _Call] = {}
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
        if not isinstance(self._open, _Message):
            events = self._close_open()
            self._open = _Message(len(self._items), f"msg_{self._stem}_{len(self._items)}")
            self._items.append(self._open)
            events.append(self._open.added())
        return events + self._open.grow(kind, text, logprobs)

    def _called(self, start: ToolCallStart) -> Events:
        events = self._close_open()
        name = f"fc_{self._stem}_{len(self._items)}"
        function = self._spaces.get(start.name, {"name": start.name})
        call = self._calls[start.index] = _Call(len(self._items), name, call_id=start.id, function=function)
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

    def _thought(self) -> "tuple[Events, _Thought]":
        if isinstance(self._open, _Thought):
            return [], self._open
        events = self._close_open()
        name = f"rs_{self._stem}_{len(self._items)}"
        thought = self._open = _Thought(len(self._items), name, encrypted=self._tells_thoughts)
        self._items.append(thought)
        return [*events, thought.added()], thought

    def _close_open(self) -> Events:
        closing, self._open = self._open, None
        return [] if closing is None else closing.close()


class _Item(ABC):
    """One item, at its place."""

    def __init__(self, index: int, name: str) -> None:
        self.place = {"item_id": name, "output_index": index}
        self.index = index
        self.name = name
        self.status = "in_progress"

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """The item as it stands."""

    def added(self) -> tuple[str, dict[str, Any]]:
        return "response.output_item.added", {"output_index": self.index, "item": self.fields()}

    def done(self) -> tuple[str, dict[str, Any]]:
        self.status = "completed"
        return "response.output_item.done", {"output_index": self.index, "item": self.fields()}


class _Message(_Item):
    """Text and refusals, each a part of its own."""

    def __init__(self, index: int, name: str) -> None:
        super().__init__(index, name)
        self._parts: list[tuple[str, list[str], list[Any]]] = []

    def fields(self) -> dict[str, Any]:
        content = [_part(kind, "".join(texts), logprobs) for kind, texts, logprobs in self._parts]
        return {"type": "message", "id": self.name, "status": self.status, "role": "assistant", "content": content}

    def grow(self, kind: str, text: str, logprobs: Any) -> Events:
        events: Events = []
        if not self._parts or self._parts[-1][0] != kind:
            events = self._close_part()
            self._parts.append((kind, [], []))
            events.append(("response.content_part.added", {**self._at(), "part": _part(kind, "", [])}))
        _, texts, known = self._parts[-1]
        texts.append(text)
        tokens = _tokens(logprobs)
        known += tokens
        beside = {"logprobs": tokens} if kind == "output_text" else {}
        return [*events, (f"response.{kind}.delta", {**self._at(), "delta": text, **beside})]

    def close(self) -> Events:
        return [*self._close_part(), self.done()]

    def _at(self) -> dict[str, Any]:
        return {**self.place, "content_index": len(self._parts) - 1}

    def _close_part(self) -> Events:
        if not self._parts:
            return []
        kind, texts, logprobs = self._parts[-1]
        text = "".join(texts)
        said = {"text": text, "logprobs": logprobs} if kind == "output_text" else {"refusal": text}
        return [
            (f"response.{kind}.done", {**self._at(), **said}),
            ("response.content_part.done", {**self._at(), "part": _part(kind, text, logprobs)}),
        ]


class _Thought(_Item):
    """What is thought, told as its summary; ``encrypted`` where the client wants to give it back."""

    def __init__(self, index: int, name: str, *, encrypted: bool) -> None:
        super().__init__(index, name)
        self.blocks: list[dict[str, str]] = []
        self._encrypted = encrypted
        self._texts: list[str] = []

    def fields(self) -> dict[str, Any]:
        text = "".join(self._texts)
        summary = [{"type": "summary_text", "text": text}] if text else []
        fields = {"type": "reasoning", "id": self.name, "summary": summary}
        blocks = self.blocks or ([{"type": "thinking", "thinking": text}] if text else [])
        if self._encrypted and blocks and self.status == "completed":
            fields["encrypted_content"] = closed_thoughts(blocks)
        return fields

    def grow(self, text: str) -> Events:
        events: Events = []
        if not self._texts:
            part = {"type": "summary_text", "text": ""}
            events.append(("response.reasoning_summary_part.added", {**self._at(), "part": part}))
        self._texts.append(text)
        return [*events, ("response.reasoning_summary_text.delta", {**self._at(), "delta": text})]

    def sign(self, signature: str) -> None:
        self.blocks.append({"type": "thinking", "thinking": "".join(self._texts), "signature": signature})

    def close(self) -> Events:
        if not self._texts:
            return [self.done()]
        text = "".join(self._texts)
        part = {"type": "summary_text", "text": text}
        return [
            ("response.reasoning_summary_text.done", {**self._at(), "text": text}),
            ("response.reasoning_summary_part.done", {**self._at(), "part": part}),
            self.done(),
        ]

    def _at(self) -> dict[str, Any]:
        return {**self.place, "summary_index": 0}


class _Call(_Item):
    """A call of a function."""

    def __init__(self, index: int, name: str, *, call_id: str, function: Mapping[str, str]) -> None:
        super().__init__(index, name)
        self._call_id = call_id
        self._function = function
        self._arguments: list[str] = []

    def fields(self) -> dict[str, Any]:
        return {
            "type": "function_call",
            "id": self.name,
            "call_id": self._call_id,
            **self._function,
            "arguments": "".join(self._arguments),
            "status": self.status,
        }

    def grow(self, text: str) -> Events:
        self._arguments.append(text)
        return [("response.function_call_arguments.delta", {**self.place, "delta": text})] if text else []

    def close(self) -> Events:
        said = {"name": self._function["name"], "arguments": "".join(self._arguments)}
        return [("response.function_call_arguments.done", {**self.place, **said}), self.done()]


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


def _part(kind: str, text: str, logprobs: list[Any]) -> dict[str, Any]:
    if kind == "refusal":
        return {"type": kind, "refusal": text}
    return {"type": kind, "text": text, "annotations": [], "logprobs": logprobs}


def _tokens(logprobs: Any) -> list[Any]:
    """The tokens of a chat's ``logprobs``, which have the same form here."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    return content if isinstance(content, list) else []
